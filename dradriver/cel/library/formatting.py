"""`"...".format([...])`: `%s %d %f %e %b %o %x %X`. Source: cel-go ext.Strings."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.evaluate.digits import whole
from dradriver.cel.evaluate.errors import ErrorValue, shown
from dradriver.cel.evaluate.steps import Spend
from dradriver.cel.evaluate.values import Duration, Timestamp, TypeName, UInt, keys_of, to_key, type_name
from dradriver.cel.library.standard import double_text
from dradriver.cel.library.time import duration_text, timestamp_text

__all__ = ["check_format", "format_text"]

_PRECISION: Final = 6
_FINEST: Final = 1000
_CLAUSE: Final = re.compile(r"%(?:\.(?P<precision>[0-9]*))?(?P<verb>.)?", re.DOTALL)
_ACCEPTED: Final[dict[str, frozenset[str]]] = {
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double"}),
    "e": frozenset({"double"}),
    "b": frozenset({"int", "uint", "bool"}),
    "o": frozenset({"int", "uint"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "s": frozenset({
        "int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type",
        "google.protobuf.Timestamp", "google.protobuf.Duration",
    }),
}  # fmt: skip
_CLAUSE_STEPS: Final = 24
_VALUE_STEPS: Final = 16
"""Steps of one clause, and of each value in it. Parts can be shared so often that the text would never end."""

_NUMBER_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def format_text(template: str, args: tuple[object, ...], *, spend: Spend) -> str:
    """Return the template with each clause replaced by its argument.

    Raises:
        ErrorValue: a clause does not exist, has no argument, or its argument has the wrong type.
        AbortError: the text takes more steps than `spend` grants.
    """
    parts: list[str] = []
    used = 0
    spend(len(template) // 16)
    for literal, clause in _pieces(template):
        spend(_CLAUSE_STEPS)
        parts.append(literal)
        if clause is None:
            continue
        if used >= len(args):
            raise ErrorValue(f"format(): index {used} out of range")
        verb, precision = _verb(clause)
        parts.append(_formatted(spend, verb, precision, args[used]))
        spend(len(parts[-1]) // 16)
        used += 1
    return "".join(parts)


def check_format(template: str, names: list[list[str]]) -> None:
    """Check a literal template against the types of literal arguments and of their parts.

    `dyn` fits everything.

    Raises:
        ErrorValue: they do not fit.
    """
    used = 0
    for _, clause in _pieces(template):
        if clause is None:
            continue
        if used >= len(names):
            raise ErrorValue(f"format(): index {used} out of range")
        verb, _precision = _verb(clause)
        for name in names[used] if verb == "s" else names[used][:1]:
            if name != "dyn" and name not in _ACCEPTED[verb]:
                raise _misfit(verb, name)
        used += 1
    if used < len(names):
        raise ErrorValue(f"format(): too many arguments (want {used}, got {len(names)})")


def _misfit(verb: str, name: str) -> ErrorValue:
    return ErrorValue(f"format(): %{verb} can't show a {name}")


def _pieces(template: str) -> Iterator[tuple[str, "re.Match[str] | None"]]:
    end = 0
    while (start := template.find("%", end)) >= 0:
        if template.startswith("%%", start):
            yield template[end : start + 1], None
            end = start + 2
            continue
        clause = _CLAUSE.match(template, start)
        assert clause is not None  # noqa: S101 - it starts with a percent sign
        yield template[end:start], clause
        end = clause.end()
    yield template[end:], None


def _verb(clause: "re.Match[str]") -> tuple[str, int]:
    verb, precision = clause["verb"], clause["precision"]
    if verb is None or verb not in _ACCEPTED:
        raise ErrorValue(f"format(): unrecognized clause {shown(clause.group())}")
    if precision is None:
        return verb, _PRECISION
    if not precision or whole(precision) > _FINEST:
        raise ErrorValue(f"format(): unusable precision in {shown(clause.group())}")
    return verb, whole(precision)


def _formatted(spend: Spend, verb: str, precision: int, value: object) -> str:
    name = type_name(value)
    special = verb in "fe" and isinstance(value, str) and value in _NUMBER_WORDS
    if name not in _ACCEPTED[verb] and not special:
        raise _misfit(verb, name)
    if verb in "fe":
        spend(_REAL_STEPS + precision)
        return _real(verb, precision, float(value))  # type: ignore[arg-type]
    if verb == "s":
        return run(_shown(spend, value, top=True))
    if isinstance(value, str | bytes):
        spend(len(value) // 4)
    return _VERBS[verb](value)


def _real(verb: str, precision: int, value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if verb == "f":
        return f"{value:,.{precision}f}"  # with commas, because Kubernetes formats for English
    mantissa, _, exponent = f"{value:.{precision}e}".partition("e")
    return f"{mantissa}×10{exponent[0].replace('+', '').replace('-', '⁻')}{_raised(exponent[1:])}"


def _raised(digits: str) -> str:
    return digits.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _hex(value: str | bytes | int) -> str:
    data = value.encode() if isinstance(value, str) else value
    return data.hex() if isinstance(data, bytes) else f"{int(data):x}"


_REAL_STEPS: Final = 200


_VERBS: Final[dict[str, Callable[[Any], str]]] = {
    "d": lambda value: str(int(value)),
    "b": lambda value: f"{int(value):b}",
    "o": lambda value: f"{int(value):o}",
    "x": _hex,
    "X": lambda value: _hex(value).upper(),
}


def _shown(spend: Spend, value: object, *, top: bool) -> Routine[str]:
    """Return a value as `%s` shows it. Inside lists and maps it is shown as a CEL literal."""
    spend(_VALUE_STEPS)
    if isinstance(value, tuple | list):
        items: list[str] = []
        for item in value:
            items.append((yield _shown(spend, item, top=False)))
            spend(len(items[-1]) // 16)
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        entries: list[str] = []
        for key in keys_of(value):
            text = yield _shown(spend, value[to_key(key)], top=False)
            spend(_VALUE_STEPS + (_size(key) + len(text)) // 8)
            entries.append(f"{_key(key)}:{text}")
        return f"{{{', '.join(sorted(entries))}}}"
    spend(_size(value) // 4)
    return _plain(value) if top else _quoted(value)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _key(key: object) -> str:
    return _quote(key) if isinstance(key, str) else _plain(key)


def _plain(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Timestamp | Duration | TypeName):
        return _named(value)
    if isinstance(value, str | int | UInt):
        return str(value)
    raise _misfit("s", type_name(value))


def _named(value: Timestamp | Duration | TypeName) -> str:
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    return duration_text(value) if isinstance(value, Duration) else value.name


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bytes):
        return "b" + _quote(value.decode(errors="replace"))
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else _quote(_plain(value))
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({_quote(_named(value))})"
    return _plain(value)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
