"""Verdicts for plain claim shapes, which are the most frequent: one request and no constraints, so no search.

Such a pod gets the first devices, in the order of preference, that can serve its request and are free. The
devices that can serve it are the same for all nodes with one signature. Each pool knows its free devices. So
the verdict is a few operations on bits. It equals the verdict of the search; `tests/properties` checks this.
"""

from collections.abc import Sequence

from dradriver.allocator.attempt import WantedClaims
from dradriver.allocator.features import Features
from dradriver.allocator.placement.claim_shapes import (
    REFUSED,
    ClassChoice,
    PlainSubrequest,
    ShapeFits,
    ShapeView,
    Verdict,
)
from dradriver.allocator.placement.node_signature import NodeSignature
from dradriver.allocator.placement.pools import NodePool
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.search.candidates import CandidateFilter, Candidates
from dradriver.allocator.search.packing import LONE
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.order import WAITS, Order, Preference
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["plain_verdict", "view_of"]


def view_of(wanted: WantedClaims, stock: NodeSignature, node: AllocationNode, features: Features) -> ShapeView:
    """Return a claim shape as nodes with one signature see it, in any state.

    Args:
        wanted: the requests.
        stock: the signature of the nodes.
        node: one of the nodes.
        features: the enabled features.
    """
    supply = Supply(((seen, PoolUse()) for seen in stock.seen), features)
    filter_ = CandidateFilter(supply, SearchState(supply, ()), node, features)
    asked = [(ask, filter_.candidates(ask)) for request in wanted.requests for ask in request.alternatives]
    if wanted.derived or any(found.errors for _, found in asked):
        return ShapeView(None, fails=True)
    if (
        stock.shared
        or len(wanted.requests) != 1
        or any(claim.spec.devices.constraints for claim in wanted.claims)
    ):
        return ShapeView(None, fails=False)
    asks = [_plain_ask(ask, found, supply, stock) for ask, found in asked]
    return ShapeView(None if None in asks else tuple(ask for ask in asks if ask is not None), fails=False)


def _plain_ask(
    ask: Subrequest, found: Candidates, supply: Supply, stock: NodeSignature
) -> PlainSubrequest | None:
    if ask.count is None or ask.admin or ask.count > MAX_RESULTS:
        return None
    candidates = [0] * len(stock.examples)
    for position in found.devices:
        pool, number = stock.places[id(supply.devices[position])]
        candidates[pool] |= 1 << number
    blueprints = [pool.blueprint for pool in stock.examples]
    for mask, blueprint in zip(candidates, blueprints, strict=True):
        if mask & blueprint.shareable or (ask.count > 1 and mask & ~blueprint.loners):
            return None
    late = tuple(mask & blueprint.binding for mask, blueprint in zip(candidates, blueprints, strict=True))
    return PlainSubrequest(ask, ask.count, tuple(candidates), late)


def plain_verdict(asks: Sequence[PlainSubrequest], pools: Sequence[NodePool], order: Order) -> Verdict:
    """Return the verdict for a node with these pools."""
    for ask in asks:
        free = [mask & pool.free for mask, pool in zip(ask.candidates, pools, strict=True)]
        if order.prefers is None:
            found = _first(free, ask.count)
            rating: Preference = WAITS if any(ask.late[pool] >> n & 1 for pool, n in found) else ()
        elif ask.count == 1:
            found, rating = _cheapest(free, ask, pools)
        else:
            late = [mask & each for mask, each in zip(free, ask.late, strict=True)]
            found = _first([mask & ~each for mask, each in zip(free, late, strict=True)], ask.count)
            waits = ask.count - len(found)
            found += _first(late, waits)
            rating = waits, *(ask.count * part for part in LONE)
        if len(found) == ask.count:
            if order.prefers is not None:
                rating = *rating, sum(pool.free.bit_count() for pool in pools)
            return ShapeFits(rating, tuple([ClassChoice(ask.ask, pool, device) for pool, device in found]))
    return REFUSED


def _first(free: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return the first `count` of these devices, or all if there are fewer."""
    found: list[tuple[int, int]] = []
    for pool, mask in enumerate(free):
        while mask and len(found) < count:
            lowest = mask & -mask
            found.append((pool, lowest.bit_length() - 1))
            mask ^= lowest  # noqa: PLW2901
    return found


def _cheapest(
    free: Sequence[int], ask: PlainSubrequest, pools: Sequence[NodePool]
) -> tuple[list[tuple[int, int]], Preference]:
    """Return the preferred device and its preference."""
    best: tuple[Preference, int, int] | None = None
    for number, (mask, late, pool) in enumerate(zip(free, ask.late, pools, strict=True)):
        for waits, candidates in enumerate((mask & ~late, mask & late)):
            if candidates and (best is None or best[0][0] >= waits):
                for preference, device in _cheapest_of(candidates, waits, pool):
                    if best is None or (preference, number, device) < best:
                        best = preference, number, device
    return ([], ()) if best is None else ([best[1:]], best[0])


def _cheapest_of(candidates: int, waits: int, pool: NodePool) -> list[tuple[Preference, int]]:
    found: list[tuple[Preference, int]] = []
    lone = candidates & pool.blueprint.loners
    if lone:
        found.append(((waits, *LONE), (lone & -lone).bit_length() - 1))
    for section, state in zip(pool.blueprint.sections, pool.states, strict=True):
        if candidates & section.mask:
            cost, place = state.cheapest(section.in_component(candidates))
            found.append(((waits, *cost), section.members[place]))
    return found
