"""Functions that treat lists as sets. Source: cel-go ext.Sets."""

from typing import Final

from dradriver.cel.compile.functions import Overload, function
from dradriver.cel.evaluate.membership import ValueSet
from dradriver.cel.evaluate.steps import Spend
from dradriver.cel.evaluate.values import size_of

__all__ = ["OVERLOADS"]

_Items = tuple[object, ...]


def _contains(items: _Items, part: _Items, *, spend: Spend) -> bool:
    return all(map(ValueSet(spend, items).has, part))


def _intersects(items: _Items, others: _Items, *, spend: Spend) -> bool:
    return any(map(ValueSet(spend, others).has, items))


def _equivalent(items: _Items, others: _Items, *, spend: Spend) -> bool:
    return _contains(items, others, spend=spend) and _contains(others, items, spend=spend)


def _cost(args: list[object], result: object) -> int:  # noqa: ARG001
    return 1 + size_of(args[0]) * size_of(args[1])


def _double_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    return 1 + 2 * size_of(args[0]) * size_of(args[1])


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("sets.contains(list(T), list(T)): bool", _contains, _cost, metered=True),
    function("sets.equivalent(list(T), list(T)): bool", _equivalent, _double_cost, metered=True),
    function("sets.intersects(list(T), list(T)): bool", _intersects, _cost, metered=True),
)
"""All functions of this module; `compile.environment` collects them."""
