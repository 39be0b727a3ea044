"""Finds choices that are equivalent.

Two devices are interchangeable if exchanging them in any valid allocation gives another valid allocation. The
search then needs to try only one of them. It uses these rules:

- Two devices of one component (`supply.counters`) are alike if all these conditions hold: the same subrequests
  accept them, they consume the same counters, a share of either takes the same capacities, and they have the
  same values for the constraints.
- Two components are alike if their devices, compared in order, are alike, the same amounts are left, and the
  same devices are taken. For this comparison, the counters of each component are numbered from its first
  counter. Attribute values that occur only in one component, such as its UUID, are numbered from the
  component's first value.

Each state of a component gets a number. Components in states with equal numbers are alike. The search tries one
device for each (component state, kind of device). It remembers a dead end as the sorted numbers of all
components with chosen devices.

No allocation is lost, and the allocation that is found first does not change, because each skipped choice is
equivalent to a choice that was tried before and failed. Within a request, devices are chosen in ascending
order. This order does not exclude any set of devices, so a dead end holds for every order.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeAlias

from dradriver.allocator.meter import DEVICES, Meter
from dradriver.allocator.search.plan import RequestPlan
from dradriver.allocator.search.state import SearchState

__all__ = ["Choice", "Symmetry"]

_TOUCHED: Final = 24
"""Number of components, or of candidates, that are added to a key in about the time of `DEVICES`."""

Choice: TypeAlias = tuple[int, ...]
"""The key of a choice. In one state of the search, equivalent choices have equal keys."""


class Symmetry:
    """Numbers the states of components and the kinds of devices."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState, meter: Meter) -> None:
        self._state = state
        self.meter = meter
        self._numbers: dict[Hashable, int] = {}
        accepted = _acceptance_masks(requests, len(state.supply.devices), meter)
        uses = [plan.use.share_use for request in requests for plan in request.alternatives]
        self._share_use = list({id(use): use for use in uses}.values())
        self._members: list[list[int]] = [[] for _ in state.supply.components]
        for device, component in enumerate(state.supply.component):
            if accepted[device]:
                self._members[component].append(device)
        self._shared_values, self._private_values = self._split_values()
        self._local: list[dict[tuple[int, int], int]] = [{} for _ in state.supply.components]
        self._kind = [0] * len(state.supply.devices)
        for component, members in enumerate(self._members):
            for device in members:
                self._kind[device] = self._number((accepted[device], *self._profile(component, device)))
        self._shape = [
            self._number(("shape", *(self._kind[device] for device in members))) for members in self._members
        ]

    def choice_class(self, device: int) -> Choice:
        """Return the equivalence class of the choice of this device."""
        key = self._component_id(self._state.supply.component[device]), self._kind[device]
        return key if self._state.share_counts[device] is None else (*key, *self._shares(device))

    def state_key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return a key for the state of the search. Equivalent states have equal keys."""
        self.meter.spend(DEVICES, len(self._state.touched) // _TOUCHED)
        known = self._state.component_ids
        touched = [
            self._component_id(component) if (number := known[component]) is None else number
            for component in self._state.touched
        ]
        touched.sort()
        # Before a device joins, the state of matchAttribute is all ones (a negative integer). It is kept.
        constraint_states = (
            state if state < 0 else state & shared
            for state, shared in zip(self._state.constraint_states, self._shared_values, strict=True)
        )
        return tuple(touched), tuple(constraint_states)

    def set_class(self, devices: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Return the equivalence class of the choice of these devices together."""
        by_component: dict[int, list[Choice]] = {}
        for device in devices:
            by_component.setdefault(self._state.supply.component[device], []).append(self.choice_class(device))
        return tuple(sorted(sum(sorted(choices), ()) for choices in by_component.values()))

    def _component_id(self, component: int) -> int:
        number = self._state.component_ids[component]
        if number is None:
            self.meter.spend(DEVICES, 1 + len(self._members[component]) + len(self._state.constraints))
            number = self._number(self._component_state(component))
            self._state.component_ids[component] = number
        return number

    def _component_state(self, component: int) -> Hashable:
        state, ranges = self._state, self._state.supply.components[component]
        return (
            self._shape[component],
            tuple(state.left[slice(*ranges.counters)]),
            tuple(state.groups_left[slice(*ranges.sets)]),
            tuple(state.marks[device] for device in self._members[component]),
            tuple(self._shares(device) for device in self._members[component]),
            tuple(
                self._renumber(component, number, bits) if bits > 0 else 0
                for number, bits in enumerate(state.constraint_states)
            ),
        )

    def _shares(self, device: int) -> tuple[int, ...]:
        """Return whether a shared device has shares in use, and the capacities that are left."""
        state = self._state
        shares = state.share_counts[device]
        if shares is None:
            return ()
        return bool(shares), *(state.left[at] for at in state.supply.capacity_indexes[device].values())

    def _profile(self, component: int, device: int) -> tuple[Hashable, ...]:
        """Return the properties of the device, with numbers relative to its component."""
        supply = self._state.supply
        ranges = supply.components[component]
        return (
            supply.held_shares[device] is None,
            tuple((at - ranges.counters[0], nano) for at, nano in supply.counters[device]),
            tuple((at - ranges.sets[0], bits) for at, bits in supply.groups[device]),
            tuple(
                (row[device] & self._shared_values[number], self._renumber(component, number, row[device]))
                for number, row in self._state.rows
            ),
            tuple(tuple(nano for _, nano in share_use.get(device, ())) for share_use in self._share_use),
        )

    def _renumber(self, component: int, constraint: int, value: int) -> int:
        """Return the values that occur only in this component, as bits in the component's own numbering."""
        value &= self._private_values[component][constraint]
        local, own = self._local[component], 0
        while value:
            bit = value & -value
            value ^= bit
            own |= 1 << local.setdefault((constraint, bit), len(local))
        return own

    def _list_values_of_constraints(self) -> list[list[int]]:
        """Return, for each constraint and device, the values that the device can have for any request."""
        values_of_devices = [[0] * len(self._state.supply.devices) for _ in self._state.constraints]
        for number, values in self._state.rows:
            row = values_of_devices[number]
            values_of_devices[number] = [known | value for known, value in zip(row, values, strict=True)]
        return values_of_devices

    def _split_values(self) -> tuple[list[int], list[list[int]]]:
        """Return the values that occur in several components, and for each component its other values."""
        shared: list[int] = []
        private: list[list[int]] = [[] for _ in self._members]
        for values in self._list_values_of_constraints():
            seen = repeated = 0
            for members, own_values in zip(self._members, private, strict=True):
                values_here = 0
                for device in members:
                    values_here |= values[device]
                own_values.append(values_here)
                repeated |= seen & values_here
                seen |= values_here
            for own_values in private:
                own_values[-1] &= ~repeated
            shared.append(repeated)
        return shared, private

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _acceptance_masks(requests: Sequence[RequestPlan], devices: int, meter: Meter) -> list[int]:
    """Return a mask for each device: the candidate sets that contain it, and those in which it fails."""
    accepted = [0] * devices
    bits: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for plan in (plan for request in requests for plan in request.alternatives):
        key = plan.devices, (*plan.candidates.errors, *plan.derivation_errors)
        if key in bits:
            continue
        meter.spend(DEVICES, len(plan.devices) // _TOUCHED)
        bit = bits[key] = 1 << (2 * len(bits))
        for device in plan.devices:
            accepted[device] |= bit
        for device in (*plan.candidates.errors, *plan.derivation_errors):
            accepted[device] |= bit << 1
    return accepted
