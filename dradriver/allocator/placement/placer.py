"""The entry point of the room: it receives events and returns placements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from dradriver.allocator import (
    MAX_STEPS,
    ORDERED,
    AllocationNode,
    CelSelectors,
    Features,
    Order,
    Reporter,
    SelectorProvider,
)
from dradriver.allocator.attempt import attempt, wanted_by
from dradriver.allocator.placement.claim_shapes import ClaimShape, ClassChoice, ShapeFits
from dradriver.allocator.placement.class_evaluator import ClassEvaluator
from dradriver.allocator.placement.classes import NodeClass
from dradriver.allocator.placement.fleet import Fleet, FleetNode
from dradriver.allocator.placement.node_signature import SharedPool
from dradriver.allocator.placement.refusals import NoNodeFits, RefusedNodes, grouped
from dradriver.allocator.result import ChosenDevice, allocations_of
from dradriver.allocator.supply.node_supply import Offer, Supply
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.claim import Allocation, DeviceId, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.recorded_groups import declared_groups
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Placement", "Placer"]

_WISHES: Final = 256
"""Number of claim shapes that are kept ready."""

_SILENT: Final = Reporter()


@dataclass(frozen=True, slots=True)
class Placement:
    """A node, and the allocations of the claims on it.

    Attributes:
        node: its name.
        allocations: by claim UID, or by `namespace/name` if a claim has none.
    """

    node: str
    allocations: Mapping[str, Allocation]


class Placer:
    """The nodes, devices and claims of a cluster, ready to place pods.

    Args:
        order: the order in which devices and nodes are preferred.
        features: the enabled features.
        selectors: evaluates selectors; CEL, except in tests that replace it.
        max_steps: number of device choices on one node after which the answer is "undecided".
    """

    def __init__(
        self,
        *,
        order: Order = ORDERED,
        features: Features | None = None,
        selectors: SelectorProvider | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._order = order
        self._features = features or Features()
        self._selectors = selectors or CelSelectors()
        self._fleet = Fleet(self._features, skips_devices=order.skips_devices)
        self._judge = ClassEvaluator(self._fleet, self._features, order, max_steps)
        self._classes: dict[str, DeviceClass] = {}
        self._wishes: dict[tuple[bytes, ...], ClaimShape] = {}

    # --- events --------------------------------------------------------------------------------

    def put_node(self, node: AllocationNode) -> None:
        """Add or replace a node."""
        self._fleet.put_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._fleet.remove_node(name)

    def put_slice(self, source: ResourceSlice) -> None:
        """Add or replace a ResourceSlice. Parts of it may be replaced by equal parts of other slices."""
        self._fleet.put_slice(source)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice."""
        self._fleet.remove_slice(name)

    def put_class(self, device_class: DeviceClass) -> None:
        """Add or replace a DeviceClass."""
        if self._classes.get(device_class.metadata.name) != device_class:
            self._classes[device_class.metadata.name] = device_class
            self._wishes.clear()

    def remove_class(self, name: str) -> None:
        """Remove a DeviceClass."""
        if self._classes.pop(name, None) is not None:
            self._wishes.clear()

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim. With an allocation it holds its devices, without one it holds none."""
        self._fleet.put_claim(claim)

    def remove_claim(self, ref: str) -> None:
        """Remove a claim (`namespace/name`)."""
        self._fleet.remove_claim(ref)

    def hold(self, claims: Iterable[ResourceClaim], placement: Placement) -> list[ResourceClaim]:
        """Add the claims with their allocations and return them.

        Claims without an allocation stay unchanged.
        """
        allocated = []
        for claim in claims:
            found = placement.allocations.get(claim.metadata.uid or claim.ref)
            if found is not None:
                claim = replace(claim, status=replace(claim.status, allocation=found))  # noqa: PLW2901
                self.put_claim(claim)
            allocated.append(claim)
        return allocated

    # --- answers -------------------------------------------------------------------------------

    def place(
        self,
        claims: Sequence[ResourceClaim],
        *,
        may_run_on: Callable[[AllocationNode], bool] | None = None,
        now: datetime | None = None,
    ) -> Placement:
        """Return the node for a pod with these claims, and their allocations on it.

        Args:
            claims: the pod's claims that have no allocation yet, in the pod's order.
            may_run_on: tells whether a node may be tried; None means all. It is not called for nodes that don't
                fit.
            now: the allocations' timestamp; None leaves it out.

        Raises:
            NoNodeFits: no node can serve the claims.
            Refusal: of kind `claim`, if a claim is wrong on every node.
        """
        wish = self._wish(claims)
        fleet = self._fleet
        wanted = None if may_run_on is None else lambda name: may_run_on(fleet.members[name].node)
        fleet.settle()
        found = wish.best(fleet.classes, fleet.shared_version, wanted)
        if not fleet.settled:
            # The first evaluation on a signature can show that nodes of one class are not equal after all.
            fleet.settle()
            found = wish.best(fleet.classes, fleet.shared_version, wanted)
        if found is None:
            raise self._no_node(claims, wish, wanted)
        name, verdict = found
        if not isinstance(verdict, ShapeFits):
            # The claims are wrong. The search on that node raises the error.
            return Placement(name, self.allocate_on(name, claims, now=now))
        member = fleet.members[name]
        picks = [self._chosen(choice, member) for choice in verdict.choices]
        return Placement(name, allocations_of(claims, picks, member.node, self._features, now))

    def allocate_on(
        self,
        name: str,
        claims: Sequence[ResourceClaim],
        *,
        now: datetime | None = None,
        reporter: Reporter | None = None,
    ) -> Mapping[str, Allocation]:
        """Return the allocations of the claims on one node: `allocate()` with the placer's snapshot.

        Raises:
            Refusal: they don't fit on the node; its reasons are about this node.
            KeyError: the node is unknown.
        """
        wanted = wanted_by(claims, self._classes, self._features, self._selectors)
        self._fleet.settle()
        member = self._fleet.members[name]
        found = attempt(
            wanted,
            Supply(self._offers(member), self._features),
            member.node,
            self._features,
            order=self._order,
            reporter=reporter or _SILENT,
            max_steps=self._judge.max_steps,
        )
        return allocations_of(claims, found.chosen(self._features), member.node, self._features, now)

    def _wish(self, claims: Sequence[ResourceClaim]) -> ClaimShape:
        key = tuple([encode(claim.spec) for claim in claims])
        wish = self._wishes.pop(key, None)
        if wish is None:
            wanted = wanted_by(claims, self._classes, self._features, self._selectors)
            for expression, derives in wanted.expressions:
                self._fleet.read(self._selectors.reads(expression, derives=derives))
            self._fleet.read(wanted.derived)
            wish = ClaimShape(wanted, self._judge, rates=self._order.prefers is not None)
            if len(self._wishes) >= _WISHES:
                del self._wishes[next(iter(self._wishes))]
        self._wishes[key] = wish
        return wish

    def _chosen(self, choice: ClassChoice, member: FleetNode) -> ChosenDevice:
        groups = self._features.compatibility_groups
        if choice.shared is not None:
            pooled = choice.shared
            declared = declared_groups(pooled.device) if groups else {}
            return ChosenDevice(choice.ask, pooled.id, pooled.device, pooled.source, choice.consumed, declared)
        pool = member.own_entries[choice.pool]
        like = pool.blueprint.view.devices[choice.device]
        return ChosenDevice(
            choice.ask,
            DeviceId(*pool.key, pool.names.devices[choice.device]),
            like.device,
            like.source,
            choice.consumed,
            pool.declared(choice.device) if groups else {},
        )

    def _offers(self, member: FleetNode) -> Iterator[Offer]:
        """Yield each pool as the node sees it, with its use and the node's own names."""
        for entry in member.entries:
            seen = entry.seen if isinstance(entry, SharedPool) else entry.seen()
            yield seen, self._fleet.ledger.pool(entry.key)

    def _no_node(
        self, claims: Sequence[ResourceClaim], wish: ClaimShape, wanted: Callable[[str], bool] | None
    ) -> NoNodeFits:
        def tried(alike: NodeClass) -> list[str]:
            return sorted(name for name in alike.nodes if wanted is None or wanted(name))

        def explain() -> Iterable[RefusedNodes]:
            self._fleet.settle()
            alike = [names for names in map(tried, self._fleet.classes.occupied()) if names]
            return grouped(alike, lambda name: self.allocate_on(name, claims))

        undecided = any(map(tried, wish.undecided))
        return NoNodeFits("undecided" if undecided else "node", len(self._fleet.members), explain)
