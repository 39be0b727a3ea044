"""Lists as sets. Source: cel-go ext.Sets."""

from typing import Final

from dradriver.cel.equality import contains
from dradriver.cel.functions import Overload, function
from dradriver.cel.values import size_of

__all__ = ["OVERLOADS"]

_Items = tuple[object, ...]


def _contains(items: _Items, part: _Items) -> bool:
    return all(contains(items, item) for item in part)


def _cost(args: list[object], result: object) -> int:  # noqa: ARG001
    return 1 + size_of(args[0]) * size_of(args[1])


def _double_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    return 1 + 2 * size_of(args[0]) * size_of(args[1])


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("sets.contains(list(T), list(T)): bool", _contains, _cost),
    function(
        "sets.equivalent(list(T), list(T)): bool",
        lambda a, b: _contains(a, b) and _contains(b, a),
        _double_cost,
    ),
    function(
        "sets.intersects(list(T), list(T)): bool", lambda a, b: any(contains(b, item) for item in a), _cost
    ),
)
"""Everything here, for the registry."""
