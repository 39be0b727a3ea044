"""Treats requests as items and the counters of one name as bins.

An item has the smallest size that any candidate of its request has in its bin. What fits into no bins can't be
served. A packing that exists is only a proposal, because other counters and the constraints are disregarded.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from dradriver.allocator.meter import DEVICES, PROOFS, Meter
from dradriver.allocator.search.plan import RequestPlan, number_kinds
from dradriver.allocator.search.proofs.bin_packing import Bin, Item, pack
from dradriver.allocator.search.state import SearchState

__all__ = ["BinFit", "Proposal"]

Proposal: TypeAlias = dict[int, list[int]]
"""For each request, the candidates in the proposed bins, as bits, one for each device that it needs."""

_Places: TypeAlias = dict[int, tuple[int, int]]
"""For each counter: the smallest amount that a candidate takes, and these candidates as bits."""

_MAX_STEPS: Final = 20_000
"""Steps of one packing. A packing that needs more is hard, and other proofs may be quicker."""

_TIGHT: Final = 3, 4
"""Counters of which at least this part is needed may be the reason why requests don't fit."""


class _TooHardError(Exception):
    """A packing takes too many steps."""


class BinFit:
    """Packs the remaining requests of one search into the counters that are left."""

    def __init__(self, requests: Sequence[RequestPlan], state: SearchState, meter: Meter) -> None:
        self._requests = requests
        self._state = state
        self._meter = meter
        self._kinds = number_kinds(requests)
        known: dict[int, dict[int, _Places]] = {}
        self._places = [
            known[kind] if kind in known else known.setdefault(kind, self._list_places(request))
            for request, kind in zip(requests, self._kinds, strict=True)
        ]

    def propose(self, numbers: Sequence[int]) -> Proposal | None:
        """Return where the requests fit together as far as counters are concerned; None if they don't fit.

        Args:
            numbers: the requests.
        """
        groups: dict[int, list[int]] = {}
        for number in numbers:
            if self._requests[number].least:
                groups.setdefault(self._kinds[number], []).append(number)
        names = sorted({name for members in groups.values() for name in self._places[members[0]]})
        best: tuple[float, Proposal] = 0.0, {}
        for name in names:
            own = [members for members in groups.values() if name in self._places[members[0]]]
            tightness, proposal = self._propose_for(name, own)
            if proposal is None:
                return None
            if tightness > best[0]:
                best = tightness, proposal
        return best[1]

    def _propose_for(self, name: int, groups: Sequence[Sequence[int]]) -> tuple[float, Proposal | None]:
        """Return the part of the counters that the requests need, and the proposal for these counters."""
        items, bins = [], dict[int, Bin]()
        for members in groups:
            item = self._make_item(name, members)
            if item is None:
                return 1.0, None
            items.append(item)
            bins.update((at, Bin(at, self._state.left[at])) for at in item.rooms)
        needed = sum(item.size * item.count for item in items)
        total = sum(each.left for each in bins.values())
        if needed * _TIGHT[1] < total * _TIGHT[0]:
            return 0.0, {}
        try:
            packing = pack(items, list(bins.values()), self._limit_steps())
        except _TooHardError:
            return 0.0, {}
        if packing is None:
            return 1.0, None
        proposal: Proposal = {}
        for members, where in zip(groups, packing, strict=True):
            places = self._places[members[0]][name]
            masks = [places[at][1] for at, count in where.items() for _ in range(count)]
            least = self._requests[members[0]].least
            proposal |= {number: masks[n * least : (n + 1) * least] for n, number in enumerate(members)}
        return needed / total, proposal

    def _limit_steps(self) -> Callable[[int], None]:
        steps = 0

        def spend(count: int) -> None:
            nonlocal steps
            steps += count
            self._meter.spend(PROOFS, 2 * count)
            if steps > _MAX_STEPS:
                raise _TooHardError

        return spend

    def _make_item(self, name: int, members: Sequence[int]) -> Item | None:
        """Return equal requests as an item; None if a device that they need has no bin."""
        self._meter.spend(PROOFS, len(self._places[members[0]][name]))
        use = self._requests[members[0]].alternatives[0].use
        free = self._state.free_devices(use.excludes)
        rooms, size = dict[int, int](), 0
        for at, (least, devices) in self._places[members[0]][name].items():
            usable = devices & free
            if usable and self._state.left[at] >= least:
                rooms[at] = usable.bit_count()
                size = min(size or least, least)
        return Item(size, self._requests[members[0]].least * len(members), rooms) if rooms else None

    def _list_places(self, request: RequestPlan) -> dict[int, _Places]:
        """Return, by number of the counter name, the places where the request's devices take from it.

        Names of which a candidate takes nothing, or from several counters, are left out.
        """
        names = self._state.supply.counter_names
        result: dict[int, _Places] = {}
        is_first = True
        for plan in request.plans:
            if not plan.use.consumes or plan.mask & self._state.shareable:
                return {}
            self._meter.spend(DEVICES, len(plan.devices))
            for device in plan.devices:
                taken: dict[int, list[tuple[int, int]]] = {}
                for at, nano in self._state.supply.counters[device]:
                    if nano:
                        taken.setdefault(names[at], []).append((at, nano))
                usable = {name for name, counters in taken.items() if len(counters) == 1}
                if is_first:
                    result = {name: {} for name in usable}
                    is_first = False
                result = {name: places for name, places in result.items() if name in usable}
                for name, places in result.items():
                    at, nano = taken[name][0]
                    least, devices = places.get(at, (nano, 0))
                    places[at] = min(least, nano), devices | 1 << device
                if not result:
                    return {}
        return result
