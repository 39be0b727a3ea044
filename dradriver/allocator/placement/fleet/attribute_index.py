"""Finds the nodes that have a device with some value of an attribute."""

from collections.abc import Collection, Hashable, Iterable
from typing import Final

from dradriver.allocator.meter import SORTING, Meter
from dradriver.allocator.placement.fleet.columns import AttributeColumn
from dradriver.allocator.placement.fleet.fleet import Fleet, FleetNode

__all__ = ["AttributeIndex"]

_MIN_NODES: Final = 3
_STEPS: Final = 2
"""Steps of indexing a node, apart from its values."""
_VALUES_PER_STEP: Final = 2
"""Values of a node that are indexed in one step."""


class AttributeIndex:
    """The nodes by the values of one attribute of their own devices.

    Args:
        fleet: the nodes.
        name: the attribute's name without its domain.
    """

    def __init__(self, fleet: Fleet, name: str) -> None:
        self._fleet = fleet
        self._name = name
        self._by_value: dict[Hashable, set[str]] = {}
        self._known: dict[str, tuple[int, Collection[Hashable]]] = {}
        self._with_values = 0
        self._position = (-1, 0)

    @property
    def is_individual(self) -> bool:
        """Return whether most values occur on one node only, as serial numbers do."""
        return self._with_values >= _MIN_NODES and 2 * len(self._by_value) > self._with_values

    def find_nodes(self, value: Hashable) -> Collection[str]:
        """Return the names of the nodes with this value, as (type, value)."""
        return self._by_value.get(value, ())

    def update(self, meter: Meter) -> None:
        """Read the nodes that changed.

        Args:
            meter: counts the work.

        Raises:
            BudgetSpentError: the budget is spent. Another call continues.
        """
        for name in self._fleet.read_changes(self._position, self._known):
            member = self._fleet.members.get(name)
            known = self._known.get(name)
            if member is None:
                self._forget(name)
            elif known is None or known[0] != member.content:
                columns = self._columns_on(member)
                meter.spend(SORTING, _STEPS + sum([len(each.distinct) for each in columns]) // _VALUES_PER_STEP)
                self._forget(name)
                self._put(name, member.content, columns)
        self._position = self._fleet.epoch, len(self._fleet.journal)

    def _columns_on(self, member: FleetNode) -> list[AttributeColumn]:
        """Return the columns of the attribute in the pools that only this node reaches."""
        found = [pool.columns.get(self._name) for pool in member.own_pools.values()]
        return [column for column in found if column is not None]

    def _forget(self, name: str) -> None:
        _, values = self._known.pop(name, (0, ()))
        self._with_values -= bool(values)
        for value in values:
            nodes = self._by_value[value]
            nodes.discard(name)
            if not nodes:
                del self._by_value[value]

    def _put(self, name: str, content: int, columns: Iterable[AttributeColumn]) -> None:
        values = dict.fromkeys([value for column in columns for value in column.distinct])
        self._known[name] = content, values
        self._with_values += bool(values)
        for value in values:
            self._by_value.setdefault(value, set()).add(name)
