"""Bounds the number of devices that a node can still give if all of them take the same counters.

A component can't give more devices than fit into the rest of any one of its counters, counted from the smallest
device on. Requests that may not share a device (`exclusion_masks`) together need no more devices than all
components give.
"""

from collections.abc import Sequence
from typing import Final

from dradriver.allocator.search.plan import RequestPlan
from dradriver.allocator.search.state import SearchState

__all__ = ["CounterBound"]

_KNOWN: Final = 20_000


class CounterBound:
    """The bound for any set of requests, in any state."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState) -> None:
        self._state = state
        self._wanted = [_wanted(request) for request in requests]
        self._consume = [request.alternatives[0].use.consumes for request in requests]
        self._shared = sum(1 << device for device, shares in enumerate(state.shares) if shares is not None)
        members = [0] * len(state.supply.components)
        for device, component in enumerate(state.supply.component):
            members[component] |= 1 << device
        self._crowds = [(component, mask) for component, mask in enumerate(members) if mask & (mask - 1)]
        self._single = sum(mask for mask in members if not mask & (mask - 1))
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def too_many(self, requests: Sequence[int]) -> bool:
        """Return whether these requests need more devices than are available together."""
        needs: dict[tuple[int, int], tuple[int, int]] = {}
        for number in requests:
            if not self._consume[number]:
                continue
            marks, count, mask = self._wanted[number]
            known = needs.get(marks, (0, 0))
            needs[marks] = known[0] + count, known[1] | mask
        return any(
            not mask & self._shared and self._fewer(count, mask & self._state.free(excludes))
            for (_, excludes), (count, mask) in needs.items()
        )

    def _fewer(self, count: int, free: int) -> bool:
        found = (free & self._single).bit_count()
        for component, members in self._crowds:
            if found >= count:
                break
            if mine := free & members:
                found += self._most(component, mine)
        return found < count

    def _most(self, component: int, devices: int) -> int:
        """Return an upper bound of the number of these devices of a component that are available together."""
        supply = self._state.supply
        first, end = supply.components[component].counters
        left = self._state.left[first:end]
        key = devices, tuple(left)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            needs: list[list[int]] = [[] for _ in left]
            for device in _bits(devices):
                for at, nano in supply.counters[device]:
                    if nano:
                        needs[at - first].append(nano)
            total = devices.bit_count()
            fit = (
                total - len(amounts) + _fitting(amounts, room)
                for amounts, room in zip(needs, left, strict=True)
            )
            found = self._known[key] = min(fit, default=total)
        return found


def _wanted(request: RequestPlan) -> tuple[tuple[int, int], int, int]:
    """Return the marks of a request, its smallest number of devices, and its possible devices as bits."""
    mask = 0
    for plan in request.plans:
        mask |= plan.mask
    use = request.alternatives[0].use
    return (use.mark, use.excludes), request.least, mask


def _bits(mask: int) -> Sequence[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _fitting(amounts: list[int], room: int) -> int:
    """Return how many of the amounts fit into the room together."""
    found = 0
    for amount in sorted(amounts):
        room -= amount
        if room < 0:
            break
        found += 1
    return found
