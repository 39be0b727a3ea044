"""Computes the maximum number of devices that the counters of a node still allow.

For each counter of a component, the devices that take the smallest amounts are counted until the rest of the
counter is used up. The component can't serve more devices than this count. Counters that serve only one device
give another bound (`counter_matching`). Requests that may not share a device (`state.assign_marks`) must be
distributed over the components, and none may serve more devices than it can (`request_flow`).
"""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import Final

from dradriver.allocator.meter import PROOFS, Meter
from dradriver.allocator.search.plan import RequestPlan, SubrequestPlan
from dradriver.allocator.search.proofs.counter_matching import bound_matching
from dradriver.allocator.search.proofs.request_flow import Hub, can_flow
from dradriver.allocator.search.state import SearchState

__all__ = ["CounterBound"]

_MAX_KNOWN: Final = 20_000


class CounterBound:
    """Checks the bound for any set of requests, in any state of the search."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState, meter: Meter) -> None:
        self._state = state
        self._meter = meter
        self._need_of = [_need_of(request) for request in requests]
        self._consumes = [request.alternatives[0].use.consumes for request in requests]
        members = [0] * len(state.supply.components)
        for device, component in enumerate(state.supply.component):
            members[component] |= 1 << device
        self._components = [(component, mask) for component, mask in enumerate(members) if mask & (mask - 1)]
        self._alone_in_component = sum(mask for mask in members if not mask & (mask - 1))
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def exceeds_supply(self, requests: Sequence[int]) -> bool:
        """Return whether these requests need more devices than can be used at the same time."""
        self._meter.spend(PROOFS, 1 + (len(requests) + len(self._components)) // 2)
        counts_of: dict[tuple[int, int], dict[int, int]] = {}
        for number in requests:
            if self._consumes[number]:
                marks, count, mask = self._need_of[number]
                counts = counts_of.setdefault(marks, {})
                counts[mask] = counts.get(mask, 0) + count
        for (_, excludes), counts in counts_of.items():
            union = reduce(or_, counts)
            if union & self._state.shareable:
                continue
            free = self._state.free_devices(excludes)
            if self._has_fewer(sum(counts.values()), union & free):
                return True
            if len(counts) > 1 and not can_flow(list(counts.values()), self._list_hubs(list(counts), free)):
                return True
        return False

    def lacks_room(self, plan: SubrequestPlan, count: int) -> bool:
        """Return whether a plan can't get `count` more devices."""
        if not plan.use.consumes or plan.mask & self._state.shareable:
            return False
        self._meter.spend(PROOFS, 1 + len(self._components) // 2)
        return self._has_fewer(count, plan.mask & self._state.free_devices(plan.use.excludes))

    def _list_hubs(self, masks: Sequence[int], free: int) -> list[Hub]:
        """Return the components that serve candidates of several sets. Equal components are one hub."""
        parts = [free & self._alone_in_component]
        for mask in masks:
            parts = [half for part in parts for half in (part & mask, part & ~mask) if half]
        numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        for part in parts:
            room = part.bit_count()
            key = room, tuple(room if part & mask else 0 for mask in masks)
            numbers[key] = numbers.get(key, 0) + 1
        union = reduce(or_, masks) & free
        for component, members in self._components:
            if candidates := union & members:
                own = (candidates & mask for mask in masks)
                rooms = tuple(self._max_devices(component, devices) if devices else 0 for devices in own)
                key = self._max_devices(component, candidates), rooms
                numbers[key] = numbers.get(key, 0) + 1
        self._meter.spend(PROOFS, (len(numbers) + len(self._components)) * len(masks))
        return [
            Hub(number * room, tuple(number * own for own in rooms))
            for (room, rooms), number in numbers.items()
        ]

    def _has_fewer(self, count: int, free: int) -> bool:
        available = (free & self._alone_in_component).bit_count()
        for component, members in self._components:
            if available >= count:
                break
            if candidates := free & members:
                available += self._max_devices(component, candidates)
        return available < count

    def _max_devices(self, component: int, devices: int) -> int:
        """Return an upper bound on how many of these devices of a component can be used at the same time."""
        supply = self._state.supply
        first, end = supply.components[component].counters
        left = self._state.left[first:end]
        key = devices, tuple(left)
        bound = self._known.get(key)
        if bound is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._meter.spend(PROOFS, devices.bit_count() + len(left))
            needs: list[list[int]] = [[] for _ in left]
            for device in _list_bits(devices):
                for at, nano in supply.counters[device]:
                    if nano:
                        needs[at - first].append(nano)
            total = devices.bit_count()
            fit = (
                total - len(amounts) + _count_fitting(amounts, room)
                for amounts, room in zip(needs, left, strict=True)
            )
            single = {
                first + at
                for at, (amounts, room) in enumerate(zip(needs, left, strict=True))
                if amounts and _count_fitting(amounts, room) < 2
            }
            bound = self._known[key] = min(*fit, total, self._count_by_matching(devices, single))
        return bound

    def _count_by_matching(self, devices: int, single: Collection[int]) -> int:
        """Return an upper bound for the devices if each counter of `single` serves only one of them."""
        edges, others = [], 0
        for device in _list_bits(devices):
            own = [at for at, nano in self._state.supply.counters[device] if nano and at in single][:2]
            if own:
                edges.append((own[0], own[1] if len(own) > 1 else -1 - device))
            else:
                others += 1
        self._meter.spend(PROOFS, len(edges) * (1 + len(single) // 8))
        return others + bound_matching(edges)


def _need_of(request: RequestPlan) -> tuple[tuple[int, int], int, int]:
    """Return a request's marks, the smallest number of devices that it needs, and its candidates as bits."""
    mask = 0
    for plan in request.plans:
        mask |= plan.mask
    use = request.alternatives[0].use
    return (use.mark, use.excludes), request.least, mask


def _list_bits(mask: int) -> Sequence[int]:
    devices = []
    while mask:
        lowest = mask & -mask
        devices.append(lowest.bit_length() - 1)
        mask ^= lowest
    return devices


def _count_fitting(amounts: list[int], room: int) -> int:
    """Return how many of the amounts, the smallest first, fit into `room` together."""
    count = 0
    for amount in sorted(amounts):
        room -= amount
        if room < 0:
            break
        count += 1
    return count
