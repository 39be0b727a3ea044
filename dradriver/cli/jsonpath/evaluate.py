"""Finds the values that a JSONPath selects, and prints them as kubectl does."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Final

from dradriver.cli.jsonpath.syntax import (
    Constant,
    Descend,
    Every,
    FieldStep,
    Filter,
    Node,
    Path,
    Range,
    Root,
    Slice,
    Text,
    Union,
)
from dradriver.errors import UsageError

__all__ = ["find_values", "render"]

_COMPARE: Final[Mapping[str, Callable[..., bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_ESCAPED_BY_GO: Final = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}
"""Go writes these characters in JSON as escapes."""
_FIRST_WITH_EXPONENT: Final = 1e21
"""Go writes whole numbers below this one without an exponent."""


def render(nodes: Sequence[Node], root: object) -> str:
    """Return the text of a template for an object.

    A field that an object lacks is empty, as in `kubectl get`.

    Args:
        nodes: the parsed template.
        root: the object: dictionaries, lists and scalars.

    Raises:
        UsageError: the template does not fit the object, for example an index out of range.
    """
    return "".join(_render(nodes, root, root))


def find_values(nodes: Sequence[Node], root: object) -> list[object]:
    """Return the values that the first path of a template selects in an object; empty if there are none.

    Args:
        nodes: the parsed template.
        root: the object.
    """
    path = next((node for node in nodes if isinstance(node, Path)), Path(()))
    return _select(path, [root], root)


def _render(nodes: Sequence[Node], current: object, root: object) -> Iterator[str]:
    for node in nodes:
        match node:
            case Text(text):
                yield text
            case Range(path, body):
                for value in _select(path, [current], root):
                    yield from _render(body, value, root)
            case Path():
                yield " ".join(_print(value) for value in _select(node, [current], root))
            case _:
                raise AssertionError(node)


def _select(path: Path, values: Sequence[object], root: object) -> list[object]:
    found = list(values)
    for node in path.nodes:
        if isinstance(node, Union):  # kubectl prints the first part of all values, then the second
            found = [each for part in node.parts for each in _select(part, found, root)]
            continue
        found = [each for value in found for each in _apply(node, value, root)]
    return found


def _apply(node: Node, value: object, root: object) -> Iterator[object]:  # noqa: C901 - a case a node
    match node:
        case Root(whole):
            yield root if whole else value
        case Constant(literal):
            yield literal
        case FieldStep(""):
            yield value
        case FieldStep(name):
            if isinstance(value, Mapping) and name in value:
                yield value[name]
        case Every():
            yield from _children(value)
        case Descend():
            yield from _descend(value)
        case Slice():
            yield from _take_slice(node, value)
        case Filter():
            yield from (each for each in _children(value) if _is_met(node, each, root))
        case Path():
            yield from _select(node, [value], root)
        case _:
            raise AssertionError(node)


def _children(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from (value[key] for key in sorted(value))
    elif isinstance(value, list):
        yield from value


def _descend(value: object) -> Iterator[object]:
    yield value
    for child in _children(value):
        if isinstance(child, (Mapping, list)):
            yield from _descend(child)


def _take_slice(node: Slice, value: object) -> Sequence[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError(f"jsonpath: an index or range needs a list, found {_print(value)}")
    length = len(value)
    start = _count_from_start(node.start or 0, length)
    end = start + 1 if node.is_index else _count_from_start(length if node.end is None else node.end, length)
    if start == end:
        return []
    for index, highest in ((start, length - 1), (end, length)):
        if not 0 <= index <= highest:
            raise UsageError(f"jsonpath: array index out of bounds: index {index}, length {length}")
    if start > end:
        raise UsageError(f"jsonpath: starting index {start} is greater than ending index {end}")
    if node.step is not None and node.step <= 0:
        raise UsageError("jsonpath: the step of a range must be greater than 0")
    return value[start : end : node.step]


def _count_from_start(index: int, length: int) -> int:
    return index + length if index < 0 else index


def _is_met(node: Filter, value: object, root: object) -> bool:
    left = _select(node.left, [value], root)
    if node.right is None:
        return bool(left)
    right = _select(node.right, [value], root)
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise UsageError("jsonpath: a side of a filter has several values; a filter compares one with one")
    first, second = left[0], right[0]
    if _rank(first) != _rank(second) or _rank(first) == "other":
        raise UsageError(f"jsonpath: incompatible types for comparison: {_print(first)} and {_print(second)}")
    if _rank(first) == "bool" and node.operator not in {"==", "!="}:
        raise UsageError(f"jsonpath: {node.operator} cannot compare truth values")
    return _COMPARE[node.operator](first, second)


def _rank(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "other"


def _print(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case float() if value.is_integer() and abs(value) < _FIRST_WITH_EXPONENT:
            return str(int(value))
        case float():
            return str(value)
        case _:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
            return text.translate(_ESCAPED_BY_GO)
