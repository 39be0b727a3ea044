"""Finds choices that are equivalent.

Two devices are interchangeable if exchanging them, with everything that distinguishes them, turns every
allocation into another valid one. It is then enough to try one of them. For the search this means:

- Inside a component (devices that compete for the same counters, see `supply.counters`), two devices are alike
  if the same subrequests accept them, they consume the same counters, a share of them takes the same
  capacities, and their values for the constraints are the same.
- Two components are alike if their devices are alike one by one, in order. For this comparison counters are
  numbered from the component's first counter. Attribute values that occur only in this component (its UUID) are
  numbered from its own first value. The same amounts must be left, and the same devices must be taken.

Each state of a component gets a number, and equal numbers mean alike. The search tries one device for each
(component state, kind of device). It remembers a dead end as the numbers of all touched components, in any
order.

This never loses an allocation and never changes which one is found first: each skipped choice is the image of a
choice that was tried before and failed. Within a request, devices are chosen in ascending order. This does not
restrict the sets that are tried, so a dead end holds for every order.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

from dradriver.allocator.search.plan import RequestPlan
from dradriver.allocator.search.state import SearchState

__all__ = ["Choice", "Symmetry"]

Choice: TypeAlias = tuple[int, ...]
"""Equal for choices that are equivalent in one state of the search."""


class Symmetry:
    """Numbers the states of components and the kinds of devices."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState) -> None:
        self._state = state
        self._numbers: dict[Hashable, int] = {}
        accepted = _accepted_by(requests, len(state.supply.devices))
        self._draws = list({id(p.use.draws): p.use.draws for r in requests for p in r.alternatives}.values())
        self._members: list[list[int]] = [[] for _ in state.supply.components]
        for device, component in enumerate(state.supply.component):
            if accepted[device]:
                self._members[component].append(device)
        self._shared, self._private = self._tell_values_apart()
        self._local: list[dict[tuple[int, int], int]] = [{} for _ in state.supply.components]
        self._kind = [0] * len(state.supply.devices)
        for component, members in enumerate(self._members):
            for device in members:
                self._kind[device] = self._number((accepted[device], *self._profile(component, device)))
        self._shape = [
            self._number(("shape", *(self._kind[device] for device in members))) for members in self._members
        ]

    def choice(self, device: int) -> Choice:
        """Return the equivalence class of choosing the device."""
        like = self._component_id(self._state.supply.component[device]), self._kind[device]
        return like if self._state.shares[device] is None else (*like, *self._shares(device))

    def position(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the state of the search; equal for equivalent states."""
        touched = sorted(self._component_id(component) for component in self._state.touched)
        # An unbound constraint keeps its start value, which is all ones for matchAttribute.
        bound = (
            state if state < 0 else state & shared
            for state, shared in zip(self._state.bound, self._shared, strict=True)
        )
        return tuple(touched), tuple(bound)

    def together(self, devices: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Return the equivalence class of choosing several devices."""
        found: dict[int, list[Choice]] = {}
        for device in devices:
            found.setdefault(self._state.supply.component[device], []).append(self.choice(device))
        return tuple(sorted(sum(sorted(choices), ()) for choices in found.values()))

    def _component_id(self, component: int) -> int:
        known = self._state.component_ids[component]
        if known is None:
            known = self._number(self._component_state(component))
            self._state.component_ids[component] = known
        return known

    def _component_state(self, component: int) -> Hashable:
        state, where = self._state, self._state.supply.components[component]
        return (
            self._shape[component],
            tuple(state.left[slice(*where.counters)]),
            tuple(state.joined[slice(*where.sets)]),
            tuple(state.marks[device] for device in self._members[component]),
            tuple(self._shares(device) for device in self._members[component]),
            tuple(
                self._renumbered(component, number, bound) if bound > 0 else 0
                for number, bound in enumerate(state.bound)
            ),
        )

    def _shares(self, device: int) -> tuple[int, ...]:
        """Return the shares in use of a shared device."""
        state = self._state
        shares = state.shares[device]
        if shares is None:
            return ()
        return bool(shares), *(state.left[at] for at in state.supply.rooms[device].values())

    def _profile(self, component: int, device: int) -> tuple[Hashable, ...]:
        """Return the device in the numbering of its component."""
        supply = self._state.supply
        where = supply.components[component]
        return (
            supply.shared_out[device] is None,
            tuple((at - where.counters[0], nano) for at, nano in supply.counters[device]),
            tuple((at - where.sets[0], bits) for at, bits in supply.groups[device]),
            tuple(
                (values[device] & self._shared[number], self._renumbered(component, number, values[device]))
                for number, values in self._state.rows
            ),
            tuple(tuple(nano for _, nano in draws.get(device, ())) for draws in self._draws),
        )

    def _renumbered(self, component: int, constraint: int, value: int) -> int:
        """Return the part of a value that occurs only in this component, in the component's own numbers."""
        value &= self._private[component][constraint]
        local, own = self._local[component], 0
        while value:
            bit = value & -value
            value ^= bit
            own |= 1 << local.setdefault((constraint, bit), len(local))
        return own

    def _values_of_constraints(self) -> list[list[int]]:
        """Return, for each constraint, the values that each device can have, for any request."""
        found = [[0] * len(self._state.supply.devices) for _ in self._state.constraints]
        for number, values in self._state.rows:
            found[number] = [known | value for known, value in zip(found[number], values, strict=True)]
        return found

    def _tell_values_apart(self) -> tuple[list[int], list[list[int]]]:
        """Return the values that occur in several components, and for each component its private values."""
        shared: list[int] = []
        private: list[list[int]] = [[] for _ in self._members]
        for values in self._values_of_constraints():
            seen = several = 0
            for members, mine in zip(self._members, private, strict=True):
                here = 0
                for device in members:
                    here |= values[device]
                mine.append(here)
                several |= seen & here
                seen |= here
            for mine in private:
                mine[-1] &= ~several
            shared.append(several)
        return shared, private

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _accepted_by(requests: Sequence[RequestPlan], devices: int) -> list[int]:
    """Return for each device, as bits, the candidate sets with it and those with a failing selector."""
    accepted = [0] * devices
    bits: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for plan in (plan for request in requests for plan in request.alternatives):
        key = plan.devices, (*plan.candidates.errors, *plan.late_errors)
        if key in bits:
            continue
        bit = bits[key] = 1 << (2 * len(bits))
        for device in plan.devices:
            accepted[device] |= bit
        for device in (*plan.candidates.errors, *plan.late_errors):
            accepted[device] |= bit << 1
    return accepted
