"""Evaluates the parts of a claim shape on the pools of one node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Final

from dradriver.allocator.device_choice import ChosenDevices, choose_devices
from dradriver.allocator.explain.refusal import Refusal
from dradriver.allocator.features import Features
from dradriver.allocator.meter import CHOICES, CLASSES, BudgetSpentError, Meter
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.bit_search import MAX_STEPS, Layout, search_bits
from dradriver.allocator.placement.evaluation.bitset_fit import evaluate_plain, find_cheapest
from dradriver.allocator.placement.evaluation.candidate_masks import CandidateMasks
from dradriver.allocator.placement.evaluation.shape_view import Part, ShapeView
from dradriver.allocator.placement.evaluation.verdicts import (
    FAULTY,
    NO_PREFERENCE,
    REFUSED,
    UNDECIDED,
    ClassChoice,
    ShapeFits,
    Verdict,
    add_ratings,
    join_verdicts,
)
from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.placement.fleet.fleet import Fleet
from dradriver.allocator.placement.fleet.pools import Entry
from dradriver.allocator.placement.fleet.shared_pools import Outlook
from dradriver.allocator.supply.node_supply import Offer, Supply
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.order import Order, Preference

__all__ = ["PartEvaluator"]

_MAX_LAYOUTS: Final = 10_000


@dataclass(slots=True)
class PartEvaluator:
    """Evaluates parts of claim shapes.

    Attributes:
        fleet: the nodes.
        candidate_masks: finds the candidates of requests.
        features: the enabled features.
        order: the order of preference.
        meter: counts the work for the pod that is placed now. Each method may raise `BudgetSpentError`.
    """

    fleet: Fleet
    candidate_masks: CandidateMasks
    features: Features
    order: Order
    meter: Meter = field(default_factory=Meter)
    _layouts: dict[tuple[int, ...], Layout] = field(default_factory=dict)

    def start(self, meter: Meter) -> None:
        """Count the work with this meter from now on."""
        self.meter = self.candidate_masks.meter = meter

    def layout(self, blueprints: Sequence[Blueprint]) -> Layout:
        """Return the layout of pools with these blueprints."""
        key = tuple([blueprint.number for blueprint in blueprints])
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[key] = Layout(blueprints)
        return layout

    def bound(self, part: Part, entries: Sequence[Entry]) -> Preference | None:
        """Return a rating that is not greater than the verdict's; None if the part certainly does not fit.

        The bound holds for the same requests with fewer candidates, too. Each device is counted as if it were
        the first, and each request as if it could choose among its alternatives.

        Args:
            part: the part.
            entries: all pools that the node sees.
        """
        self.meter.spend(CLASSES)
        pools = [entries[at] for at in part.positions]
        if not part.can_fit:
            return None
        if self.order.compute_preferences is None:
            return ()
        unused = sum([pool.pool.unused.bit_count() for pool in pools])
        total = NO_PREFERENCE
        for alternatives in part.wanted:
            best: Preference | None = None
            for candidates, count in alternatives:
                cheapest = find_cheapest(candidates, pools)
                if cheapest is None:
                    continue
                preference = tuple([count * value for value in cheapest])
                if best is None or preference < best:
                    best = preference
            if best is None:
                return None
            total = tuple(map(add, total, best))
        return (*total, unused)

    def evaluate(
        self, part: Part, signature: NodeSignature, node: AllocationNode, entries: Sequence[Entry]
    ) -> Verdict:
        """Return the verdict of a part on the pools of a node.

        Args:
            part: the part.
            signature: the signature of the node.
            node: the node.
            entries: all pools that the node sees.

        Returns:
            The verdict. Its choices name pools by their positions in `entries`.

        Raises:
            BudgetSpentError: nothing is left of the pod's budget.
        """
        if not part.can_fit:
            return REFUSED
        pools = [entries[at] for at in part.positions]
        if not part.parsed.requests:
            return ShapeFits(self._rate_nothing(pools), ())
        verdict: Verdict | None = None
        if not any(pool.overdrawn for pool in pools):
            if part.plain is not None:
                self.meter.spend(CLASSES)
                verdict = evaluate_plain(part.plain, pools, self.order)
            elif part.bits is not None:
                self.meter.spend(CLASSES, 1 + len(part.bits.requests))
                verdict = search_bits(part.bits, pools, self.order)
                if verdict is None:
                    self.meter.spend(CHOICES, MAX_STEPS)
        if verdict is None:
            return self._search(part, signature, node, entries)
        if isinstance(verdict, ShapeFits):
            choices = tuple(
                [
                    ClassChoice(choice.subrequest, part.positions[choice.entry], choice.device)
                    for choice in verdict.choices
                ]
            )
            return ShapeFits(verdict.rating, choices)
        return verdict

    def evaluate_view(
        self, view: ShapeView, signature: NodeSignature, node: AllocationNode, entries: Sequence[Entry]
    ) -> Verdict:
        """Return the verdict of all parts of a claim shape on the pools of a node; see `evaluate`."""
        own = self.evaluate(view.own, signature, node, entries)
        if not isinstance(own, ShapeFits) or view.is_whole or not signature.shared:
            return own
        if view.shared is None:
            return ShapeFits(add_ratings(own.rating, self.rate_outlook(signature.outlook)), own.choices)
        shared = self.evaluate(view.shared, signature, node, entries)
        return join_verdicts(own, shared, view.parsed) if isinstance(shared, ShapeFits) else shared

    def rate_outlook(self, outlook: Outlook) -> Preference:
        """Return what the shared pools add to the rating of a node if the claims use none of them."""
        if self.order.compute_preferences is None or not outlook.sights:
            return ()
        return (*NO_PREFERENCE, outlook.count_free())

    def _rate_nothing(self, pools: Sequence[Entry]) -> Preference:
        if self.order.compute_preferences is None:
            return ()
        return (*NO_PREFERENCE, sum(pool.pool.unused.bit_count() for pool in pools))

    def _search(
        self, part: Part, signature: NodeSignature, node: AllocationNode, entries: Sequence[Entry]
    ) -> Verdict:
        try:
            with self.meter.one_node():
                devices = choose_devices(
                    part.parsed,
                    Supply(self._offers(part, signature, entries), self.features),
                    node,
                    self.features,
                    order=self.order,
                    meter=self.meter,
                )
        except Refusal as refusal:
            if self.meter.is_spent:
                raise BudgetSpentError from None
            return {"claim": FAULTY, "undecided": UNDECIDED}.get(refusal.kind, REFUSED)
        return ShapeFits(devices.rating, tuple(self._choices(devices, signature)))

    def _offers(self, part: Part, signature: NodeSignature, entries: Sequence[Entry]) -> Iterator[Offer]:
        for at in part.positions:
            pool = entries[at].pool
            if at in signature.pools:
                yield signature.pools[at], pool.use(signature.entries[at].pool.names)
            else:
                yield pool.on_node(), self.fleet.usage.pool(pool.key)

    @staticmethod
    def _choices(devices: ChosenDevices, signature: NodeSignature) -> Iterator[ClassChoice]:
        for plan, position in devices.picks:
            pooled = devices.supply.devices[position]
            is_shareable = devices.supply.held_shares[position] is not None
            consumed = plan.candidates.share_capacity[position] if is_shareable else None
            yield ClassChoice(plan.subrequest, *signature.numbers[id(pooled)], consumed)
