"""Evaluates a claim shape on one node of a class, for all nodes of the class."""

from collections.abc import Iterator
from dataclasses import dataclass

from dradriver.allocator.attempt import ChosenDevices, attempt
from dradriver.allocator.explain.refusal import Refusal, Reporter
from dradriver.allocator.features import Features
from dradriver.allocator.placement.bitset_fit import plain_verdict, view_of
from dradriver.allocator.placement.claim_shapes import (
    FAULTY,
    REFUSED,
    UNDECIDED,
    ClaimShape,
    ClassChoice,
    ShapeFits,
    Verdict,
)
from dradriver.allocator.placement.classes import NodeClass
from dradriver.allocator.placement.fleet import Fleet, FleetNode
from dradriver.allocator.placement.node_signature import NodeSignature, SharedPool
from dradriver.allocator.supply.node_supply import Offer, Supply
from dradriver.allocator.supply.order import Order

__all__ = ["ClassEvaluator"]

_SILENT = Reporter()


@dataclass(frozen=True, slots=True)
class ClassEvaluator:
    """Evaluates claim shapes on classes of nodes.

    Attributes:
        fleet: the nodes.
        features: the enabled features.
        order: the order of preference.
        max_steps: number of device choices after which the verdict is "undecided".
    """

    fleet: Fleet
    features: Features
    order: Order
    max_steps: int

    def __call__(self, wish: ClaimShape, alike: NodeClass) -> Verdict:
        """Return the verdict for all nodes of the class."""
        member = self.fleet.members[alike.first]
        stock = alike.stock
        view = wish.views.get(stock.number)
        if view is None:
            view = view_of(wish.wanted, stock, member.node, self.features)
            wish.views[stock.number] = view
        if view.fails:
            self.fleet.tell_holders_apart()
        plain, pools = view.plain, member.own_entries
        if plain is not None and not any(pool.overdrawn for pool in pools):
            return plain_verdict(plain, pools, self.order)
        return self._searched(wish, member, stock)

    def _searched(self, wish: ClaimShape, member: FleetNode, stock: NodeSignature) -> Verdict:
        try:
            found = attempt(
                wish.wanted,
                Supply(self._offers(member, stock), self.features),
                member.node,
                self.features,
                order=self.order,
                reporter=_SILENT,
                max_steps=self.max_steps,
            )
        except Refusal as refusal:
            return {"claim": FAULTY, "undecided": UNDECIDED}.get(refusal.kind, REFUSED)
        return ShapeFits(found.rating, tuple(self._choices(found, stock)))

    def _offers(self, member: FleetNode, stock: NodeSignature) -> Iterator[Offer]:
        own = iter(zip(stock.seen, stock.examples, strict=True))
        for entry in member.entries:
            if isinstance(entry, SharedPool):
                yield entry.seen, self.fleet.ledger.pool(entry.key)
            else:
                seen, example = next(own)
                yield seen, entry.use(example.names)

    @staticmethod
    def _choices(found: ChosenDevices, stock: NodeSignature) -> Iterator[ClassChoice]:
        for plan, position in found.picks:
            pooled = found.supply.devices[position]
            shared_out = found.supply.shared_out[position] is not None
            consumed = plan.candidates.shares[position] if shared_out else None
            place = stock.places.get(id(pooled))
            if place is None:
                yield ClassChoice(plan.ask, -1, -1, pooled, consumed)
            else:
                yield ClassChoice(plan.ask, *place, None, consumed)
