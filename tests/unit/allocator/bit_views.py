"""Derives the bit sets of a claim shape from parsed claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator.device_choice import ParsedClaims
from dradriver.allocator.features import Features
from dradriver.allocator.meter import Meter
from dradriver.allocator.placement.evaluation.bit_search.bit_shape import (
    BitAlternative,
    BitConstraint,
    BitRequest,
    BitShape,
)
from dradriver.allocator.placement.evaluation.bit_search.layout import Layout
from dradriver.allocator.request.constraints import LIST, Constraint, parse_constraints
from dradriver.allocator.request.subrequests import ParsedRequest, Subrequest
from dradriver.allocator.search.candidates import CandidateFilter
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.pools import PoolOnNode

__all__ = ["BitView", "view_bits"]


@dataclass(frozen=True, slots=True)
class BitView:
    """A claim shape as nodes with equal pools see it.

    Attributes:
        shape: the claim shape as bit sets; None if only the full search can decide it.
        fails: whether the evaluation of a selector, a derived attribute or a capacity may fail on a device of
            these nodes.
    """

    shape: BitShape | None
    fails: bool


def view_bits(
    parsed: ParsedClaims,
    layout: Layout,
    pools: Sequence[PoolOnNode],
    node: AllocationNode,
    features: Features,
) -> BitView:
    """Return a claim shape as nodes with equal pools see it, whatever devices are held on them.

    Args:
        parsed: the requests.
        layout: the numbering of the devices.
        pools: the pools of one of the nodes, in the order of the layout.
        node: this node.
        features: the enabled features.
    """
    supply = Supply(((pool, PoolUse()) for pool in pools), features)
    filter_ = CandidateFilter(supply, SearchState(supply, ()), node, features, Meter())
    candidates = {
        alternative: filter_.candidates(alternative)
        for request in parsed.requests
        for alternative in request.alternatives
    }
    if parsed.derived or any(each.errors for each in candidates.values()):
        return BitView(None, fails=True)
    bits = {
        id(device): 1 << offset + number
        for pool, offset in zip(pools, layout.offsets, strict=True)
        for number, device in enumerate(pool.view.devices)
    }
    masks = {
        alternative: sum(bits[id(supply.devices[position])] for position in each.devices)
        for alternative, each in candidates.items()
    }
    if any(map(_needs_search, masks)) or any(mask & layout.shareable for mask in masks.values()):
        return BitView(None, fails=False)
    constraints = parse_constraints(parsed.claims, features)
    rows = [_list_values(each, masks, pools) for each in constraints]
    if any(LIST in row for row in rows):
        return BitView(None, fails=False)
    return BitView(
        BitShape(
            layout,
            [_request(each, masks, constraints) for each in parsed.requests],
            [BitConstraint(row, distinct=each.distinct) for row, each in zip(rows, constraints, strict=True)],
        ),
        fails=False,
    )


def _needs_search(subrequest: Subrequest) -> bool:
    return subrequest.count is None or subrequest.admin


def _list_values(
    constraint: Constraint, masks: Mapping[Subrequest, int], pools: Sequence[PoolOnNode]
) -> list[int]:
    """Return the value of each device that a covered subrequest may get, as bits; 0 for the other devices."""
    covered = 0
    for subrequest, mask in masks.items():
        covered |= mask if constraint.covers(subrequest) else 0
    values: list[int] = []
    for pool in pools:
        for device in pool.view.devices:
            is_covered = covered >> len(values) & 1
            values.append(constraint.published_value(device) if is_covered else 0)
    return values


def _request(
    request: ParsedRequest, masks: Mapping[Subrequest, int], constraints: Sequence[Constraint]
) -> BitRequest:
    alternatives = []
    for each in request.alternatives:
        covering = tuple(number for number, constraint in enumerate(constraints) if constraint.covers(each))
        alternatives.append(BitAlternative(each, each.count or 0, masks[each], covering))
    return BitRequest(request.claim, tuple(alternatives))
