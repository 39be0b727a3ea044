"""Proves quickly that the remaining requests can't all be served.

Each bound compares a lower bound of the need of the remaining requests with an upper bound of the supply:

- devices: requests whose candidates all lie in one set need no more devices than can be used in that set.
- alone: each request finds as many usable devices as it needs, and its constraints admit them.
- values: the requests of a distinctAttribute need as many different values as devices, and some values of their
  candidates are taken.
- counters: each request takes at least the smallest amount that one of its candidates takes of a counter name.
  Together the requests take no more than the rest of that counter name in all counter sets.

The needs are computed in advance for every suffix of the requests, so a check is a few comparisons.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from dradriver.allocator.explain.refusal import Reason
from dradriver.allocator.search.exclusion_masks import EVERY_MARK
from dradriver.allocator.search.plan import RequestPlan, SubrequestPlan, kinds_of, too_few
from dradriver.allocator.search.state import SearchState

__all__ = ["Bounds"]

_KNOWN_JOINS: Final = 4096


class Bounds:
    """The bounds for the requests from each position to the end."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState) -> None:
        self._requests = requests
        self._state = state
        self._known_joins: dict[tuple[int, int, int], int] = {}
        self._known_floors: dict[tuple[int, int, bool], dict[int, int]] = {}
        demands = _Demands(sum(1 << device for device, shares in enumerate(state.shares) if shares is not None))
        floors = [0] * len(state.totals)
        self._own_values = [self._values_of(request) for request in requests]
        self._own_floors: list[list[tuple[int, int]]] = [[] for _ in requests]
        kinds, first_of_kind = kinds_of(requests), dict[int, int]()
        self._different = [list[int]()]
        self._demands = [list[tuple[int, int, int]]()]
        self._floors = [list[tuple[int, int]]()]
        for number in reversed(range(len(requests))):
            first_of_kind[kinds[number]] = number
            self._different.append(sorted(first_of_kind.values()))
            demands.add(number, requests[number])
            own = self._own_floors[number] = [
                (name, least) for name, least in enumerate(self._least(requests[number])) if least
            ]
            for name, least in own:
                floors[name] += least
            self._demands.append(demands.snapshot())
            self._floors.append([(name, least) for name, least in enumerate(floors) if least])
        self._demands.reverse()
        self._floors.reverse()
        self._different.reverse()

    def broken(self, request: int) -> tuple[int, Reason] | None:
        """Return the request to blame and the reason why those from `request` on can't all be served.

        None means that no bound is broken; they may be servable.
        """
        usable = self._state.free(EVERY_MARK)
        for mask, wanted, blamed in self._demands[request]:
            found = (mask & usable).bit_count()
            if found < wanted:
                return blamed, too_few(wanted, found)
        for number in self._different[request]:
            if self.spare(number) < 0:
                plan = self._requests[number].plans[0]
                return number, too_few(plan.count, self._found(plan))
        if shortage := self._too_few_values(range(request, len(self._requests))):
            return request, shortage
        for name, least in self._floors[request]:
            if self._state.totals[name] < least:
                return request, Reason("counter", self._shortage(name, least))
        return None

    def spare(self, number: int) -> int:
        """Return the number of spare devices that a request finds in the best case; below zero if too few."""
        return max((self._found(plan) - plan.count for plan in self._requests[number].plans), default=-1)

    def overdrawn_by(self, requests: Sequence[int]) -> bool:
        """Return whether these requests together need more of a counter, or more values, than are left."""
        if self._too_few_values(requests):
            return True
        needed: dict[int, int] = {}
        for number in requests:
            for name, least in self._own_floors[number]:
                needed[name] = needed.get(name, 0) + least
        return any(self._state.totals[name] < least for name, least in needed.items())

    def _values_of(self, request: RequestPlan) -> list[tuple[int, int, int]]:
        """Return for each distinctAttribute the number of devices under it and their possible values."""
        found = []
        for number, constraint in enumerate(self._state.constraints):
            covered = [plan for plan in request.plans if number in plan.use.constraints]
            if constraint.distinct and covered:
                values = 0
                for plan in covered:
                    row = plan.use.values[plan.use.constraints.index(number)]
                    for device in plan.devices:
                        values |= row[device]
                free = len(covered) < len(request.plans)
                found.append((number, 0 if free else min(plan.count for plan in covered), values))
        return found

    def _too_few_values(self, requests: Iterable[int]) -> Reason | None:
        needed: dict[int, tuple[int, int]] = {}
        for request in requests:
            for number, count, values in self._own_values[request]:
                sum_, union = needed.get(number, (0, 0))
                needed[number] = sum_ + count, union | values
        for number, (count, values) in needed.items():
            found = (values & ~self._state.bound[number]).bit_count()
            if found < count:
                attribute = self._state.constraints[number].attribute
                text = f"distinctAttribute {attribute}: {count} different values are needed, {found} can be had"
                return Reason("constraint", text)
        return None

    def _found(self, plan: SubrequestPlan) -> int:
        """Return how many devices the plan finds if the other requests take none."""
        found = plan.mask & self._state.free(plan.use.excludes, consumes=plan.use.consumes)
        for number, values in zip(plan.use.constraints, plan.use.values, strict=True):
            found &= self._may_join(number, values)
        return found.bit_count()

    def _may_join(self, number: int, values: Sequence[int]) -> int:
        """Return the devices that a constraint still admits, as bits."""
        bound = self._state.bound[number]
        key = number, id(values), bound
        if key not in self._known_joins:
            if len(self._known_joins) >= _KNOWN_JOINS:
                self._known_joins.clear()
            constraint = self._state.constraints[number]
            self._known_joins[key] = sum(
                1 << device
                for device, value in enumerate(values)
                if constraint.joined(bound, value) is not None
            )
        return self._known_joins[key]

    def _shortage(self, name: int, least: int) -> str:
        supply = self._state.supply
        at = supply.counter_names.index(name)
        what, needed, left = supply.told(at, least, self._state.totals[name])
        where = "counter sets" if what.startswith("counter") else "devices"
        return f"{what}: the requests need at least {needed} together, {left} is left in all {where}"

    def _least(self, request: RequestPlan) -> list[int]:
        return [min(of_one) for of_one in zip(*map(self._least_of, request.plans), strict=True)]

    def _least_of(self, plan: SubrequestPlan) -> list[int]:
        """Return the smallest amount that the plan takes of each counter name."""
        key = plan.mask, id(plan.use.draws), plan.use.consumes
        if key not in self._known_floors:
            self._known_floors[key] = self._floor(plan)
        floor = self._known_floors[key]
        return [plan.count * floor.get(name, 0) for name in range(len(self._state.totals))]

    def _floor(self, plan: SubrequestPlan) -> dict[int, int]:
        """Return the smallest amount that one of the devices consumes of each counter name."""
        supply, least = self._state.supply, dict[int, int]()
        for index, device in enumerate(plan.devices):
            mine: dict[int, int] = {}
            # A later share of a shared device takes no counters, so no amount is certain.
            for at, nano in plan.use.draws.get(device, supply.counters[device] if plan.use.consumes else ()):
                name = supply.counter_names[at]
                mine[name] = mine.get(name, 0) + nano
            if index == 0:
                least = mine
            else:
                least = {name: min(nano, mine[name]) for name, nano in least.items() if name in mine}
            if not least:
                break
        return least


class _Demands:
    """The number of devices that the requests seen so far need inside each of their candidate sets."""

    def __init__(self, shared: int) -> None:
        self._shared = shared
        self._own: dict[int, int] = {}
        self._inside: dict[int, int] = {}
        self._first: dict[int, int] = {}

    def add(self, number: int, request: RequestPlan) -> None:
        # Admin access may take devices in use, so it needs no free device.
        if any(plan.ask.admin for plan in request.plans):
            return
        mask, count = 0, request.least
        for plan in request.plans:
            mask |= plan.mask
        # One device may serve several requests if it is shared.
        if mask & self._shared:
            return
        if mask not in self._own:
            self._own[mask] = 0
            self._inside[mask] = sum(own for other, own in self._own.items() if not other & ~mask)
        self._own[mask] += count
        self._first[mask] = number
        for other in self._inside:
            if not mask & ~other:
                self._inside[other] += count

    def snapshot(self) -> list[tuple[int, int, int]]:
        return [(mask, wanted, self._first[mask]) for mask, wanted in self._inside.items()]
