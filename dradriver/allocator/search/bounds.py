"""Proves quickly that the remaining requests can't all be served.

Each bound compares what the remaining requests need at least with what is available at most:

- devices: if all candidates of some requests are in one set, these requests must not need more devices than are
  usable in the set.
- alone: each request must find as many usable devices as it needs if the other requests take none. Its
  constraints must admit these devices.
- values: the requests of a distinctAttribute need a different value for each of their devices. Their candidates
  must have enough values that are not taken.
- counters: for each counter name, a request takes at least the smallest amount that any of its candidates takes
  from counters with this name. Together the requests must not take more than is left in these counters.

The needs are computed once for each position in the list of requests, for the requests from there to the end.
So a check is a few comparisons.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from dradriver.allocator.explain.refusal import Reason
from dradriver.allocator.meter import DEVICES, PROOFS, Meter
from dradriver.allocator.search.plan import RequestPlan, SubrequestPlan, number_kinds, too_few_reason
from dradriver.allocator.search.state import ALL_MARKS, SearchState

__all__ = ["Bounds"]

_MAX_KNOWN: Final = 4096
_PER_PROOF: Final = 4
"""Number of comparisons of two integers in about the time of `PROOFS` or `DEVICES`."""


class Bounds:
    """The bounds for the requests from each position to the end."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState, meter: Meter) -> None:
        self._requests = requests
        self._state = state
        self._meter = meter
        self._known_joinable: dict[tuple[int, int, int], int] = {}
        self._known_needs: dict[tuple[int, int, bool], dict[int, int]] = {}
        demands = _Demands(state.shareable)
        needs = [0] * len(state.totals)
        self._values_of_request = [self._list_values(request) for request in requests]
        self._needs_of_request: list[list[tuple[int, int]]] = [[] for _ in requests]
        kinds, first_of_kind = number_kinds(requests), dict[int, int]()
        self._one_of_each_kind = [list[int]()]
        self._demands = [list[tuple[int, int, int]]()]
        self._needs = [list[tuple[int, int]]()]
        for number in reversed(range(len(requests))):
            first_of_kind[kinds[number]] = number
            self._one_of_each_kind.append(sorted(first_of_kind.values()))
            demands.add(number, requests[number])
            meter.spend(PROOFS, 1 + (len(demands) + len(needs)) // _PER_PROOF)
            own_needs = self._needs_of_request[number] = [
                (name, least) for name, least in enumerate(self._needs_of(requests[number])) if least
            ]
            for name, least in own_needs:
                needs[name] += least
            self._demands.append(demands.list_demands())
            self._needs.append([(name, least) for name, least in enumerate(needs) if least])
        self._demands.reverse()
        self._needs.reverse()
        self._one_of_each_kind.reverse()

    def find_violation(self, request: int) -> tuple[int, Reason] | None:
        """Return the request that prevents serving all requests from `request` on, and the reason.

        None means that no bound is broken, so the requests may be servable.
        """
        self._meter.spend(PROOFS, 1 + (len(self._demands[request]) + len(self._needs[request])) // _PER_PROOF)
        free = self._state.free_devices(ALL_MARKS)
        for mask, wanted, blamed in self._demands[request]:
            usable = (mask & free).bit_count()
            if usable < wanted:
                return blamed, too_few_reason(wanted, usable)
        for number in self._one_of_each_kind[request]:
            if self.count_spare(number) < 0:
                plan = self._requests[number].plans[0]
                return number, too_few_reason(plan.count, self._count_usable(plan))
        if shortage := self._find_value_shortage(range(request, len(self._requests))):
            return request, shortage
        for name, least in self._needs[request]:
            if self._state.totals[name] < least:
                return request, Reason("counter", self._shortage_text(name, least))
        return None

    def count_spare(self, number: int) -> int:
        """Return how many more devices a request could use than it needs; below zero if too few."""
        self._meter.spend(PROOFS, 2 * len(self._requests[number].plans))
        return max((self._count_usable(plan) - plan.count for plan in self._requests[number].plans), default=-1)

    def exceeds_supply(self, requests: Sequence[int]) -> bool:
        """Return whether these requests together need too much of a counter or too many different values."""
        if self._find_value_shortage(requests):
            return True
        needed: dict[int, int] = {}
        for number in requests:
            for name, least in self._needs_of_request[number]:
                needed[name] = needed.get(name, 0) + least
        return any(self._state.totals[name] < least for name, least in needed.items())

    def _list_values(self, request: RequestPlan) -> list[tuple[int, int, int]]:
        """Return, for each distinctAttribute: (constraint, least number of devices, their values as bits)."""
        values_of_constraints = []
        for number, constraint in enumerate(self._state.constraints):
            covered = [plan for plan in request.plans if number in plan.use.constraints]
            if constraint.distinct and covered:
                values = 0
                for plan in covered:
                    row = plan.use.values[plan.use.constraints.index(number)]
                    for device in plan.devices:
                        values |= row[device]
                is_avoidable = len(covered) < len(request.plans)
                count = 0 if is_avoidable else min(plan.count for plan in covered)
                values_of_constraints.append((number, count, values))
        return values_of_constraints

    def _find_value_shortage(self, requests: Iterable[int]) -> Reason | None:
        needed: dict[int, tuple[int, int]] = {}
        for request in requests:
            for number, count, values in self._values_of_request[request]:
                total, union = needed.get(number, (0, 0))
                needed[number] = total + count, union | values
        for number, (count, values) in needed.items():
            usable = (values & ~self._state.constraint_states[number]).bit_count()
            if usable < count:
                attribute = self._state.constraints[number].attribute
                text = f"{count} different values are needed, {usable} are available"
                return Reason("constraint", f"distinctAttribute {attribute}: {text}")
        return None

    def _count_usable(self, plan: SubrequestPlan) -> int:
        """Return how many devices the plan can use if the remaining requests take none."""
        usable = plan.mask & self._state.free_devices(plan.use.excludes, consumes=plan.use.consumes)
        for number, values in zip(plan.use.constraints, plan.use.values, strict=True):
            usable &= self._find_joinable(number, values)
        return usable.bit_count()

    def _find_joinable(self, number: int, values: Sequence[int]) -> int:
        """Return, as bits, the devices that a constraint still admits."""
        state = self._state.constraint_states[number]
        key = number, id(values), state
        if key not in self._known_joinable:
            if len(self._known_joinable) >= _MAX_KNOWN:
                self._known_joinable.clear()
            self._meter.spend(DEVICES, len(values) // 2)
            constraint = self._state.constraints[number]
            self._known_joinable[key] = sum(
                1 << device for device, value in enumerate(values) if constraint.join(state, value) is not None
            )
        return self._known_joinable[key]

    def _shortage_text(self, name: int, least: int) -> str:
        supply = self._state.supply
        at = supply.counter_names.index(name)
        resource, needed, left = supply.describe_resource(at, least, self._state.totals[name])
        where = "counter sets" if resource.startswith("counter") else "devices"
        return f"{resource}: the requests need at least {needed} together, {left} is left in all {where}"

    def _needs_of(self, request: RequestPlan) -> list[int]:
        return [min(amounts) for amounts in zip(*map(self._needs_of_plan, request.plans), strict=True)]

    def _needs_of_plan(self, plan: SubrequestPlan) -> list[int]:
        """Return, for each counter name, the smallest amount that the plan takes."""
        key = plan.mask, id(plan.use.share_use), plan.use.consumes
        if key not in self._known_needs:
            self._known_needs[key] = self._compute_need(plan)
        need = self._known_needs[key]
        return [plan.count * need.get(name, 0) for name in range(len(self._state.totals))]

    def _compute_need(self, plan: SubrequestPlan) -> dict[int, int]:
        """Return, by number of the counter name, the smallest amount that a device of the plan consumes."""
        supply, least = self._state.supply, dict[int, int]()
        self._meter.spend(DEVICES, len(plan.devices))
        for index, device in enumerate(plan.devices):
            amounts: dict[int, int] = {}
            # Only the first share of a shared device takes counters, so a share is counted without them.
            counters = supply.counters[device] if plan.use.consumes else ()
            for at, nano in plan.use.share_use.get(device, counters):
                name = supply.counter_names[at]
                amounts[name] = amounts.get(name, 0) + nano
            if index == 0:
                least = amounts
            else:
                least = {name: min(nano, amounts[name]) for name, nano in least.items() if name in amounts}
            if not least:
                break
        return least


class _Demands:
    """For each candidate set: the number of devices in it that the requests added so far need."""

    def __init__(self, shared: int) -> None:
        self._shared = shared
        self._needed_by_mask: dict[int, int] = {}
        self._needed_inside: dict[int, int] = {}
        self._first_request: dict[int, int] = {}

    def add(self, number: int, request: RequestPlan) -> None:
        # Admin access may take devices in use, so it needs no free device.
        if any(plan.subrequest.admin for plan in request.plans):
            return
        mask, count = 0, request.least
        for plan in request.plans:
            mask |= plan.mask
        # A shared device may serve several requests.
        if mask & self._shared:
            return
        if mask not in self._needed_by_mask:
            self._needed_by_mask[mask] = 0
            self._needed_inside[mask] = sum(
                own_needs for other, own_needs in self._needed_by_mask.items() if not other & ~mask
            )
        self._needed_by_mask[mask] += count
        self._first_request[mask] = number
        for other in self._needed_inside:
            if not mask & ~other:
                self._needed_inside[other] += count

    def __len__(self) -> int:
        return len(self._needed_inside)

    def list_demands(self) -> list[tuple[int, int, int]]:
        return [(mask, wanted, self._first_request[mask]) for mask, wanted in self._needed_inside.items()]
