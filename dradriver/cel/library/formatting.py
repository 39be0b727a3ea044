"""`"...".format([...])`: `%s %d %f %e %b %o %x %X`. Source: cel-go ext.Strings."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.evaluate.digits import parse_digits
from dradriver.cel.evaluate.errors import ErrorValue, excerpt
from dradriver.cel.evaluate.steps import Spend
from dradriver.cel.evaluate.values import Duration, Timestamp, TypeName, UInt, keys_of, to_key, type_name
from dradriver.cel.library.standard import double_text
from dradriver.cel.library.time import duration_text, timestamp_text

__all__ = ["check_format", "format_text"]

_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000
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
"""Steps of one clause, and of each value in it.

They limit the text, because values can share parts so often that the text would become huge.
"""

_NUMBER_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def format_text(template: str, args: tuple[object, ...], *, spend: Spend) -> str:
    """Return the template with each clause replaced by its argument.

    Raises:
        ErrorValue: a clause does not exist, has no argument, or its argument has the wrong type.
        AbortError: the text takes more steps than `spend` allows.
    """
    parts: list[str] = []
    index = 0
    spend(len(template) // 16)
    for literal, clause in _split_clauses(template):
        spend(_CLAUSE_STEPS)
        parts.append(literal)
        if clause is None:
            continue
        if index >= len(args):
            raise ErrorValue(f"format(): index {index} out of range")
        verb, precision = _parse_clause(clause)
        parts.append(_format(spend, verb, precision, args[index]))
        spend(len(parts[-1]) // 16)
        index += 1
    return "".join(parts)


def check_format(template: str, names: list[list[str]]) -> None:
    """Check a literal template against the types of literal arguments and of their parts.

    A `dyn` argument fits every clause.

    Raises:
        ErrorValue: the template and the types do not fit.
    """
    index = 0
    for _, clause in _split_clauses(template):
        if clause is None:
            continue
        if index >= len(names):
            raise ErrorValue(f"format(): index {index} out of range")
        verb, _precision = _parse_clause(clause)
        for name in names[index] if verb == "s" else names[index][:1]:
            if name != "dyn" and name not in _ACCEPTED[verb]:
                raise _type_error(verb, name)
        index += 1
    if index < len(names):
        raise ErrorValue(f"format(): too many arguments (expected {index}, got {len(names)})")


def _type_error(verb: str, name: str) -> ErrorValue:
    return ErrorValue(f"format(): %{verb} can't show a {name}")


def _split_clauses(template: str) -> Iterator[tuple[str, "re.Match[str] | None"]]:
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


def _parse_clause(clause: "re.Match[str]") -> tuple[str, int]:
    verb, precision = clause["verb"], clause["precision"]
    if verb is None or verb not in _ACCEPTED:
        raise ErrorValue(f"format(): unrecognized clause {excerpt(clause.group())}")
    if precision is None:
        return verb, _PRECISION
    if not precision or parse_digits(precision) > _MAX_PRECISION:
        raise ErrorValue(f"format(): unusable precision in {excerpt(clause.group())}")
    return verb, parse_digits(precision)


def _format(spend: Spend, verb: str, precision: int, value: object) -> str:
    name = type_name(value)
    special = verb in "fe" and isinstance(value, str) and value in _NUMBER_WORDS
    if name not in _ACCEPTED[verb] and not special:
        raise _type_error(verb, name)
    if verb in "fe":
        spend(_REAL_STEPS + precision)
        return _real(verb, precision, float(value))  # type: ignore[arg-type]
    if verb == "s":
        return run(_show(spend, value, top=True))
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
    return f"{mantissa}×10{exponent[0].replace('+', '').replace('-', '⁻')}{_superscript(exponent[1:])}"


def _superscript(digits: str) -> str:
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


def _show(spend: Spend, value: object, *, top: bool) -> Routine[str]:
    """Return a value as `%s` formats it. If `top` is false, the value is formatted as a CEL literal."""
    spend(_VALUE_STEPS)
    if isinstance(value, tuple | list):
        items: list[str] = []
        for item in value:
            items.append((yield _show(spend, item, top=False)))
            spend(len(items[-1]) // 16)
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        entries: list[str] = []
        for key in keys_of(value):
            text = yield _show(spend, value[to_key(key)], top=False)
            spend(_VALUE_STEPS + (_size(key) + len(text)) // 8)
            entries.append(f"{_key(key)}:{text}")
        return f"{{{', '.join(sorted(entries))}}}"
    spend(_size(value) // 4)
    return _show_plain(value) if top else _show_nested(value)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _key(key: object) -> str:
    return _quote(key) if isinstance(key, str) else _show_plain(key)


def _show_plain(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Timestamp | Duration | TypeName):
        return _show_named(value)
    if isinstance(value, str | int | UInt):
        return str(value)
    raise _type_error("s", type_name(value))


def _show_named(value: Timestamp | Duration | TypeName) -> str:
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    return duration_text(value) if isinstance(value, Duration) else value.name


def _show_nested(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bytes):
        return "b" + _quote(value.decode(errors="replace"))
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else _quote(_show_plain(value))
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({_quote(_show_named(value))})"
    return _show_plain(value)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
