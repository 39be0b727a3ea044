"""Finds choices that are equivalent, as `search.symmetry` does for the full search.

A *unit* is a component, or a device that consumes nothing. Two units of one kind have, device by device, the
same needs, candidates and values for the constraints. Values that occur only in one unit, such as a UUID, are
numbered from the unit's first such value. Two units of one kind are alike if their components are in one state
and the same of their devices are chosen. Then exchanging their devices in any allocation gives another
allocation.
"""

from collections.abc import Hashable, Sequence

from dradriver.allocator.placement.evaluation.bit_search.layout import Layout
from dradriver.allocator.placement.fleet.components import ComponentState, iter_bits

__all__ = ["BitSymmetry", "StateKeys"]


class _Unit:
    """A unit.

    Attributes:
        devices: its devices, ascending.
        mask: its devices as bits.
        part: the index of its component among the parts of the layout; None for a device that consumes nothing.
        kind: the number of its kind.
        private: for each constraint, the values that occur only in this unit, each with its number.
    """

    def __init__(self, devices: Sequence[int], part: int | None) -> None:
        self.devices = devices
        self.mask = sum(1 << device for device in devices)
        self.part = part
        self.kind = 0
        self.private: list[dict[int, int]] = []

    def select(self, chosen: int) -> int:
        """Return the chosen devices among its devices, as bits, numbered from the unit's first device."""
        return sum(1 << at for at, device in enumerate(self.devices) if chosen >> device & 1)

    def renumber(self, constraint: int, value: int) -> int:
        """Return the private values of a set of values, as bits, by their numbers."""
        return sum(1 << number for bit, number in self.private[constraint].items() if bit & value)


class BitSymmetry:
    """The kinds of units and devices.

    Attributes:
        unit_of: the unit of each device.
        kind: the number of each device's kind.
        shared: for each constraint, the values that occur in several units.
    """

    def __init__(self, layout: Layout, candidates: Sequence[int], values: Sequence[Sequence[int]]) -> None:
        """Find the units.

        Args:
            layout: the devices.
            candidates: the different sets of candidates.
            values: for each constraint and device, the value as bits.
        """
        self._values = values
        self._numbers: dict[Hashable, int] = {}
        accepted = 0
        for mask in candidates:
            accepted |= mask
        self.units = [
            _Unit(tuple(iter_bits(part.mask)), index)
            for index, part in enumerate(layout.parts)
            if part.mask & accepted
        ]
        self.units += [_Unit((device,), None) for device in iter_bits(layout.without_counters & accepted)]
        self.unit_of = {device: unit for unit in self.units for device in unit.devices}
        self.shared = [self._split_values(number) for number in range(len(values))]
        masks = (*candidates, layout.binding)
        self.kind: dict[int, int] = {}
        for unit in self.units:
            shape = None if unit.part is None else layout.parts[unit.part].shape
            for local, device in enumerate(unit.devices):
                accepts = tuple(mask >> device & 1 for mask in masks)
                consumes = (shape.needs[local], shape.groups[local]) if shape is not None else None
                self.kind[device] = self._number((accepts, consumes, self._profile(unit, device)))
            unit.kind = self._number((shape, tuple(self.kind[device] for device in unit.devices)))

    def _split_values(self, constraint: int) -> int:
        """Find the private values of each unit, and return the values that occur in several units."""
        row = self._values[constraint]
        seen = shared = 0
        for unit in self.units:
            values = 0
            for device in unit.devices:
                values |= row[device]
            shared |= seen & values
            seen |= values
        for unit in self.units:
            own: dict[int, int] = {}
            for device in unit.devices:
                for number in iter_bits(row[device] & ~shared):
                    own.setdefault(1 << number, len(own))
            unit.private.append(own)
        return shared

    def _profile(self, unit: _Unit, device: int) -> Hashable:
        """Return the values of a device for the constraints, with numbers relative to its unit."""
        return tuple(
            (row[device] & shared, unit.renumber(number, row[device]))
            for number, (row, shared) in enumerate(zip(self._values, self.shared, strict=True))
        )

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


class StateKeys:
    """Numbers the states of one search."""

    def __init__(self, symmetry: BitSymmetry, components: Sequence[ComponentState]) -> None:
        """Start a search.

        Args:
            symmetry: the kinds of units and devices.
            components: for each part, the state of its component before the search.
        """
        self._symmetry = symmetry
        self._components = components
        self._known: dict[tuple[_Unit, int, tuple[int, ...]], tuple[int, ...]] = {}

    def choice(self, device: int, chosen: int, constraints: tuple[int, ...]) -> Hashable:
        """Return a key. In one state of the search, equivalent choices have equal keys.

        Args:
            device: the device to choose.
            chosen: the chosen devices as bits.
            constraints: the states of the constraints.
        """
        unit = self._symmetry.unit_of[device]
        return self._unit_key(unit, chosen & unit.mask, constraints), self._symmetry.kind[device]

    def state(self, chosen: int, constraints: tuple[int, ...]) -> Hashable:
        """Return a key. Equivalent states of the search have equal keys."""
        keys, unit_of, rest = [], self._symmetry.unit_of, chosen
        while rest:
            unit = unit_of[rest.bit_length() - 1]
            keys.append(self._unit_key(unit, chosen & unit.mask, constraints))
            rest &= ~unit.mask
        # Before a device joins, the state of matchAttribute is all ones (a negative integer). It is kept.
        states = [
            state if state < 0 else state & shared
            for state, shared in zip(constraints, self._symmetry.shared, strict=True)
        ]
        return tuple(sorted(keys)), tuple(states)

    def _unit_key(self, unit: _Unit, chosen: int, constraints: tuple[int, ...]) -> tuple[int, ...]:
        known = self._known.get((unit, chosen, constraints))
        if known is None:
            known = self._known[unit, chosen, constraints] = (
                unit.kind,
                0 if unit.part is None else self._components[unit.part].number,
                unit.select(chosen),
                *(unit.renumber(n, state) if state > 0 else 0 for n, state in enumerate(constraints)),
            )
        return known
