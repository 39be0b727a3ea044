"""CEL's extended functions on texts. Positions are in code points. Source: cel-go ext.Strings, version 2."""

from typing import Final

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import double_first_cost, double_result_cost, first_cost, traversal_cost
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.steps import Spend, first_work, search_steps
from dradriver.cel.evaluate.values import size_of
from dradriver.cel.library.formatting import format_text

__all__ = ["OVERLOADS"]

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_ESCAPES: Final = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
})  # fmt: skip


def _range_error(index: int) -> ErrorValue:
    return ErrorValue(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _range_error(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _range_error(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part) if part else len(text)
    if start < 0:
        raise _range_error(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, count: int = -1, *, spend: Spend) -> str:
    spend(2 * search_steps(len(text), len(old)))
    replaced = text.count(old) if count < 0 else min(count, text.count(old))
    spend((len(text) + replaced * (len(new) + 4)) // 32)
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1, *, spend: Spend) -> tuple[str, ...]:
    if limit == 0:
        return ()
    spend(2 * search_steps(len(text), len(separator)))
    spend(text.count(separator) if limit < 0 else min(limit, text.count(separator)))
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if limit < 0 or limit >= len(text):
        return tuple(text)
    return (*text[: limit - 1], text[limit - 1 :])


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise ErrorValue(f"invalid substring range: {start} to {end}")
    if not 0 <= start <= len(text):
        raise _range_error(start)
    if not 0 <= stop <= len(text):
        raise _range_error(stop)
    return text[start:stop]


def _join(texts: tuple[object, ...], separator: str = "", *, spend: Spend) -> str:
    spend(len(texts) // 2)
    parts = [text for text in texts if isinstance(text, str)]
    if len(parts) < len(texts):
        raise ErrorValue("join() needs a list of texts")
    spend((sum(map(len, parts)) + len(parts) * len(separator)) // 32)
    return separator.join(parts)


def _search_work(args: list[object]) -> int:
    return size_of(args[0]) // 16 + search_steps(size_of(args[0]), size_of(args[1]))


OVERLOADS: Final[tuple[Overload, ...]] = (
    method("charAt(string, int): string", _char_at),
    method("indexOf(string, string): int", _index_of, traversal_cost, work=_search_work),
    method("indexOf(string, string, int): int", _index_of, traversal_cost, work=_search_work),
    method("lastIndexOf(string, string): int", _last_index_of, traversal_cost, work=_search_work),
    method("lastIndexOf(string, string, int): int", _last_index_of, traversal_cost, work=_search_work),
    method("lowerAscii(string): string", lambda text: text.translate(_LOWER), first_cost, work=first_work(2)),
    method("upperAscii(string): string", lambda text: text.translate(_UPPER), first_cost, work=first_work(2)),
    method("replace(string, string, string): string", _replace, double_first_cost, metered=True),
    method("replace(string, string, string, int): string", _replace, double_first_cost, metered=True),
    method("split(string, string): list(string)", _split, double_first_cost, metered=True),
    method("split(string, string, int): list(string)", _split, double_first_cost, metered=True),
    method("substring(string, int): string", _substring, first_cost, work=first_work(32)),
    method("substring(string, int, int): string", _substring, first_cost, work=first_work(32)),
    method("trim(string): string", lambda text: text.strip(_SPACE), first_cost, work=first_work(32)),
    method("join(list(string)): string", _join, double_result_cost, metered=True),
    method("join(list(string), string): string", _join, double_result_cost, metered=True),
    method("format(string, list(dyn)): string", format_text, first_cost, metered=True),
    function(
        "strings.quote(string): string",
        lambda text: f'"{text.translate(_ESCAPES)}"',
        first_cost,
        work=first_work(2),
    ),
)
"""All functions of this module; `compile.environment` collects them."""
