"""Computes verdicts for plain claim shapes without a search: one request and no constraints.

Plain claim shapes are the most frequent. A pod with such claims gets, in the order of preference, the first
devices that can serve its request and are free. The devices that can serve the request are the same for all
nodes with one signature. Each pool keeps its free devices as bits. So the verdict takes a few operations.
The verdict equals that of the search. `tests/properties` checks this.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dradriver.allocator.placement.evaluation.verdicts import REFUSED, ClassChoice, ShapeFits, Verdict
from dradriver.allocator.placement.fleet.pools import Entry
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.search.packing import FULL_DEVICE_COST
from dradriver.allocator.supply.order import BINDING_RATING, Order, Preference

__all__ = ["PlainSubrequest", "evaluate_plain", "find_cheapest"]


@dataclass(frozen=True, slots=True)
class PlainSubrequest:
    """An alternative of the only request of a plain claim shape, as nodes with one signature see it.

    Attributes:
        subrequest: the subrequest.
        count: number of devices. It is above one only if none of the candidates consumes counters.
        candidates: for each pool, as bits, the devices that can serve the subrequest.
        binding: for each pool, as bits, the candidates with binding conditions.
    """

    subrequest: Subrequest
    count: int
    candidates: tuple[int, ...]
    binding: tuple[int, ...]


def evaluate_plain(subrequests: Sequence[PlainSubrequest], pools: Sequence[Entry], order: Order) -> Verdict:
    """Return the verdict for a node with these pools."""
    for subrequest in subrequests:
        free = [mask & pool.free for mask, pool in zip(subrequest.candidates, pools, strict=True)]
        if order.compute_preferences is None:
            chosen = _take_first(free, subrequest.count)
            is_binding = any(subrequest.binding[pool] >> number & 1 for pool, number in chosen)
            rating: Preference = BINDING_RATING if is_binding else ()
        elif subrequest.count == 1:
            chosen, rating = _take_cheapest(free, subrequest.binding, pools)
        else:
            binding = [mask & each for mask, each in zip(free, subrequest.binding, strict=True)]
            ready = [mask & ~each for mask, each in zip(free, binding, strict=True)]
            chosen = _take_first(ready, subrequest.count)
            missing = subrequest.count - len(chosen)
            chosen += _take_first(binding, missing)
            rating = missing, *(subrequest.count * part for part in FULL_DEVICE_COST)
        if len(chosen) == subrequest.count:
            if order.compute_preferences is not None:
                rating = *rating, sum(pool.free.bit_count() for pool in pools)
            choices = tuple([ClassChoice(subrequest.subrequest, pool, device) for pool, device in chosen])
            return ShapeFits(rating, choices)
    return REFUSED


def find_cheapest(candidates: Sequence[int], pools: Sequence[Entry]) -> Preference | None:
    """Return the smallest preference of the available candidates; None if no candidate is available.

    Args:
        candidates: for each pool, as bits, the candidates.
        pools: the pools.
    """
    free = [mask & pool.free for mask, pool in zip(candidates, pools, strict=True)]
    binding = [mask & pool.blueprint.binding for mask, pool in zip(free, pools, strict=True)]
    chosen, preference = _take_cheapest(free, binding, pools)
    return preference if chosen else None


def _take_first(free: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return the first `count` of these devices as (pool, device), or all if there are fewer."""
    devices: list[tuple[int, int]] = []
    for pool, mask in enumerate(free):
        while mask and len(devices) < count:
            lowest = mask & -mask
            devices.append((pool, lowest.bit_length() - 1))
            mask ^= lowest  # noqa: PLW2901
    return devices


def _take_cheapest(
    free: Sequence[int], of_binding: Sequence[int], pools: Sequence[Entry]
) -> tuple[list[tuple[int, int]], Preference]:
    """Return the preferred device as (pool, device), with its preference."""
    best: tuple[Preference, int, int] | None = None
    for number, (mask, binding, pool) in enumerate(zip(free, of_binding, pools, strict=True)):
        for is_binding, candidates in enumerate((mask & ~binding, mask & binding)):
            if candidates and (best is None or best[0][0] >= is_binding):
                for preference, device in _cheapest_of_pool(candidates, is_binding, pool):
                    if best is None or (preference, number, device) < best:
                        best = preference, number, device
    return ([], ()) if best is None else ([best[1:]], best[0])


def _cheapest_of_pool(candidates: int, is_binding: int, pool: Entry) -> list[tuple[Preference, int]]:
    """Return the first device without counters and the cheapest device of each section, with preferences."""
    cheapest: list[tuple[Preference, int]] = []
    mask = candidates & pool.blueprint.without_counters
    if mask:
        cheapest.append(((is_binding, *FULL_DEVICE_COST), (mask & -mask).bit_length() - 1))
    for section, state in zip(pool.blueprint.sections, pool.states, strict=True):
        if candidates & section.mask:
            cost, number = state.cheapest(section.in_component(candidates), section.visible)
            cheapest.append(((is_binding, *cost), section.members[number]))
    return cheapest
