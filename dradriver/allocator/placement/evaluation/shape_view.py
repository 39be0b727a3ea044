"""A claim shape as nodes with one signature see it, and its division into independent parts.

A request is *own* if only pools of the node itself have candidates for it, and *shared* if only pools that
other nodes reach too have candidates. If each request is one or the other, and no constraint covers both, the
two parts of the claim shape are decided apart: the own part once for each class of nodes, the shared part
once for all nodes with one outlook. The first allocation of independent parts is the first allocation of
each. In all other cases the claim shape has one part, which must be decided again whenever a shared pool
changes.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.device_choice import ParsedClaims
from dradriver.allocator.features import Features
from dradriver.allocator.meter import DEVICES, Meter
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.bit_search import (
    BitAlternative,
    BitConstraint,
    BitRequest,
    BitShape,
    Layout,
)
from dradriver.allocator.placement.evaluation.bitset_fit import PlainSubrequest
from dradriver.allocator.placement.evaluation.candidate_masks import CandidateMasks
from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.request.constraints import LIST, Constraint, parse_constraints
from dradriver.allocator.request.subrequests import ParsedRequest, Subrequest
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["Part", "ShapeView", "view_shape"]

_DEVICES_PER_VALUE: Final = 2
"""Devices that can be read in about the time in which a device's value for a constraint is read."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Requests that are decided together, on some of the pools of a node.

    Attributes:
        parsed: these requests.
        positions: the positions of these pools among the pools of the node.
        key: parts of one claim shape with equal keys have equal requests and equal candidates.
        plain: the alternatives of the only request if `bitset_fit` can decide it, else None.
        bits: the requests if `bit_search` can decide them, else None.
        wanted: for each request and alternative, the candidates in each pool as bits, and how many are needed;
            empty if only the full search can decide the part.
        can_fit: whether each request has enough candidates if no device is held.
    """

    parsed: ParsedClaims
    positions: tuple[int, ...]
    key: Hashable
    plain: tuple[PlainSubrequest, ...] | None
    bits: BitShape | None
    wanted: tuple[tuple[tuple[tuple[int, ...], int], ...], ...]
    can_fit: bool


@dataclass(frozen=True, slots=True, eq=False)
class ShapeView:
    """A claim shape as nodes with one signature see it.

    Attributes:
        parsed: the claims.
        own: the part that only the pools of the node itself serve. It has every request and every pool if the
            parts are not independent.
        shared: the part that only shared pools serve; None if there is none.
        is_whole: whether `own` has every request although the node sees shared pools that may serve them.
        fails: whether the evaluation of a selector, a derived attribute or a capacity may fail on a device of
            these nodes.
    """

    parsed: ParsedClaims
    own: Part
    shared: Part | None
    is_whole: bool
    fails: bool


def view_shape(
    parsed: ParsedClaims,
    signature: NodeSignature,
    node: AllocationNode,
    candidate_masks: CandidateMasks,
    layouts: Callable[[Sequence[Blueprint]], Layout],
    features: Features,
) -> ShapeView:
    """Return a claim shape as nodes with one signature see it, whatever devices are held on them.

    Args:
        parsed: the requests.
        signature: the signature of the nodes.
        node: one of the nodes.
        candidate_masks: finds candidates.
        layouts: returns the layout of pools with these blueprints.
        features: the enabled features.

    Raises:
        BudgetSpentError: the budget is spent.
    """
    alternatives = [alternative for request in parsed.requests for alternative in request.alternatives]
    masks: dict[int, tuple[int, ...]] = {}
    fails = bool(parsed.derived)
    for alternative in alternatives:
        found = [candidate_masks.find(alternative, entry, node) for entry in signature.entries]
        masks[id(alternative)] = tuple([each.matching for each in found])
        fails = fails or any(each.faulty for each in found)
    everything = tuple(range(len(signature.entries)))
    if fails or not all(_is_supported(alternative, masks, signature) for alternative in alternatives):
        return ShapeView(
            parsed,
            Part(parsed, everything, (), None, None, (), can_fit=True),
            None,
            bool(signature.shared),
            fails,
        )
    constraints = parse_constraints(parsed.claims, features)
    builder = _PartBuilder(parsed, constraints, signature, masks, layouts, candidate_masks.meter)
    if not signature.shared:
        return ShapeView(parsed, builder.build(parsed.requests, everything), None, is_whole=False, fails=False)
    own = [request for request in parsed.requests if builder.uses(request, signature.own)]
    shared = [request for request in parsed.requests if builder.uses(request, signature.shared)]
    if builder.are_independent(own, shared):
        if not shared:
            return ShapeView(
                parsed, builder.build(parsed.requests, signature.own), None, is_whole=False, fails=False
            )
        own = [request for request in parsed.requests if request not in shared]
        parts = builder.build(own, signature.own), builder.build(shared, signature.shared)
        return ShapeView(parsed, *parts, is_whole=False, fails=False)
    return ShapeView(parsed, builder.build(parsed.requests, everything), None, is_whole=True, fails=False)


def _is_supported(subrequest: Subrequest, masks: dict[int, tuple[int, ...]], signature: NodeSignature) -> bool:
    """Return whether operations on bits can decide the subrequest."""
    if subrequest.count is None or subrequest.admin or subrequest.count > MAX_RESULTS:
        return False
    return not any(
        mask & entry.blueprint.shareable
        for mask, entry in zip(masks[id(subrequest)], signature.entries, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _PartBuilder:
    parsed: ParsedClaims
    constraints: Sequence[Constraint]
    signature: NodeSignature
    masks: dict[int, tuple[int, ...]]
    layouts: Callable[[Sequence[Blueprint]], Layout]
    meter: Meter

    def uses(self, request: ParsedRequest, positions: Sequence[int]) -> bool:
        """Return whether one of these pools has a candidate for the request."""
        return any(self.masks[id(each)][at] for each in request.alternatives for at in positions)

    def are_independent(self, own: Sequence[ParsedRequest], shared: Sequence[ParsedRequest]) -> bool:
        """Return whether requests with own candidates and those with shared candidates are decided apart."""
        if not shared:
            return True
        if any(request in shared for request in own):
            return False
        for constraint in self.constraints:
            of_shared = [any(map(constraint.covers, r.alternatives)) for r in shared]
            of_others = [
                any(map(constraint.covers, r.alternatives)) for r in self.parsed.requests if r not in shared
            ]
            if any(of_shared) and any(of_others):
                return False
        return all(
            sum(
                max(each.count or 1 for each in r.alternatives)
                for r in self.parsed.requests
                if r.claim == claim
            )
            <= MAX_RESULTS
            for claim in range(len(self.parsed.claims))
        )

    def build(self, requests: Sequence[ParsedRequest], positions: tuple[int, ...]) -> Part:
        """Return the part with these requests on these pools."""
        blueprints = [self.signature.entries[at].blueprint for at in positions]
        masks = tuple(
            [
                tuple([tuple([self.masks[id(each)][at] for at in positions]) for each in request.alternatives])
                for request in requests
            ]
        )
        key = tuple([(request.claim, request.name) for request in requests]), masks
        can_fit = all(
            any(
                sum(map(int.bit_count, mask)) >= (each.count or 1)
                for each, mask in zip(request.alternatives, of_request, strict=True)
            )
            for request, of_request in zip(requests, masks, strict=True)
        )
        parsed = self.parsed
        if len(requests) < len(parsed.requests):
            parsed = ParsedClaims(parsed.claims, list(requests))
        plain = bits = None
        if can_fit and requests:
            plain = self._simplify(requests, masks, blueprints)
            if plain is None:
                bits = self._bit_shape(requests, masks, positions)
        wanted = tuple(
            [
                tuple([(mask, each.count or 1) for each, mask in zip(r.alternatives, of_request, strict=True)])
                for r, of_request in zip(requests, masks, strict=True)
            ]
        )
        return Part(parsed, positions, key, plain, bits, wanted, can_fit)

    def _simplify(
        self, requests: Sequence[ParsedRequest], masks: "_MasksByRequest", blueprints: Sequence[Blueprint]
    ) -> tuple[PlainSubrequest, ...] | None:
        """Return the alternatives of the only request as bit sets; None if only a search can decide it."""
        if len(requests) != 1 or self.constraints:
            return None
        plain = []
        for each, candidates in zip(requests[0].alternatives, masks[0], strict=True):
            counted = any(m & ~b.without_counters for m, b in zip(candidates, blueprints, strict=True))
            if each.count is None or (each.count > 1 and counted):
                return None
            binding = tuple([m & b.binding for m, b in zip(candidates, blueprints, strict=True)])
            plain.append(PlainSubrequest(each, each.count, candidates, binding))
        return tuple(plain)

    def _bit_shape(
        self, requests: Sequence[ParsedRequest], masks: "_MasksByRequest", positions: tuple[int, ...]
    ) -> BitShape | None:
        """Return the requests as bit sets; None if a constraint covers lists that are not compared."""
        layout = self.layouts([self.signature.entries[at].blueprint for at in positions])
        rows = [self._list_values(constraint, requests, positions) for constraint in self.constraints]
        if any(LIST in row for row in rows):
            return None
        bit_requests = [
            BitRequest(
                request.claim,
                tuple(
                    [
                        BitAlternative(each, each.count or 0, layout.join(candidates), self._covering(each))
                        for each, candidates in zip(request.alternatives, of_request, strict=True)
                    ]
                ),
            )
            for request, of_request in zip(requests, masks, strict=True)
        ]
        return BitShape(
            layout,
            bit_requests,
            [
                BitConstraint(row, distinct=each.distinct)
                for row, each in zip(rows, self.constraints, strict=True)
            ],
        )

    def _covering(self, subrequest: Subrequest) -> tuple[int, ...]:
        return tuple([n for n, constraint in enumerate(self.constraints) if constraint.covers(subrequest)])

    def _list_values(
        self, constraint: Constraint, requests: Sequence[ParsedRequest], positions: tuple[int, ...]
    ) -> list[int]:
        """Return the value of each device that a covered request may get, as bits; 0 for the other devices."""
        covered = [each for r in requests for each in r.alternatives if constraint.covers(each)]
        values: list[int] = []
        for at in positions:
            pool, mask = self.signature.entries[at].pool, 0
            for each in covered:
                mask |= self.masks[id(each)][at]
            self.meter.spend(DEVICES, _DEVICES_PER_VALUE * mask.bit_count())
            column = pool.column(constraint.attribute.rpartition("/")[2]).values
            # Devices of one kind have the same full names of attributes.
            known: dict[Hashable, int] = {}
            for number, group in enumerate(zip(pool.blueprint.kinds, column, strict=True)):
                value = known.get(group) if mask >> number & 1 else 0
                if value is None:
                    value = known[group] = constraint.published_value(pool.device(number))
                values.append(value)
        return values


_MasksByRequest: TypeAlias = tuple[tuple[tuple[int, ...], ...], ...]
"""For each request, alternative and pool: the candidates as bits."""
