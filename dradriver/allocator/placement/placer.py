"""The entry point of this package: `Placer` receives events and returns placements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec.structs import replace

from dradriver.allocator import (
    BUDGET,
    ORDERED,
    AllocationNode,
    BudgetSpentError,
    CelSelectors,
    Features,
    Meter,
    Order,
    Refusal,
    Reporter,
    SelectorProvider,
)
from dradriver.allocator.device_choice import choose_devices, parse_claims
from dradriver.allocator.placement.classes.node_classes import Allows, NodeClass
from dradriver.allocator.placement.evaluation.candidate_masks import CandidateMasks
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.evaluation.verdicts import ClassChoice, ShapeFits
from dradriver.allocator.placement.fleet.fleet import Fleet, FleetNode
from dradriver.allocator.placement.refusals import NoNodeFits, RefusedNodes, group_by_reason
from dradriver.allocator.placement.shapes.class_groups import BestNode
from dradriver.allocator.placement.shapes.shape_cache import Shape, ShapeCache
from dradriver.allocator.result import ChosenDevice, build_allocations
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.node_supply import Offer, Supply
from dradriver.allocator.supply.order import Preference
from dradriver.model.resource.claim import Allocation, DeviceId, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Placement", "Placer"]

_UNLIMITED: Final = 10**15
"""A budget that no work exceeds."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A node, and the allocations of the claims on this node.

    Attributes:
        node: the name of the node.
        allocations: the allocations by claim UID, or by `namespace/name` if a claim has no UID.
    """

    node: str
    allocations: Mapping[str, Allocation]


class Placer:
    """The nodes, devices and claims of a cluster, ready to place pods.

    Args:
        order: the order in which devices and nodes are preferred.
        features: the enabled features.
        selectors: evaluates selectors. The default is CEL; tests may replace it.
        budget: work for the decision about one pod, in microseconds of one core (`dradriver.allocator.meter`).
    """

    def __init__(
        self,
        *,
        order: Order = ORDERED,
        features: Features | None = None,
        selectors: SelectorProvider | None = None,
        budget: int = BUDGET,
    ) -> None:
        self._order = order
        self._features = features or Features()
        self._selectors = selectors or CelSelectors()
        self._fleet = Fleet(self._features, skips_devices=order.skips_devices)
        masks = CandidateMasks(self._features, self._selectors)
        self._evaluator = PartEvaluator(self._fleet, masks, self._features, order)
        self._budget = budget
        self._classes: dict[str, DeviceClass] = {}
        self._shapes = ShapeCache(self._evaluator)

    # --- events --------------------------------------------------------------------------------

    def put_node(self, node: AllocationNode) -> None:
        """Add or replace a node.

        Args:
            node: the node. Any existing node of the same name is replaced.
        """
        self._fleet.put_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node; a no-op if it is unknown.

        Args:
            name: the node's name.
        """
        self._fleet.remove_node(name)

    def put_slice(self, source: ResourceSlice) -> None:
        """Add or replace a ResourceSlice.

        Args:
            source: the slice. Side effect: parts of it may be replaced by equal parts of other slices.
        """
        self._fleet.put_slice(source)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice; a no-op if it is unknown.

        Args:
            name: the slice's name.
        """
        self._fleet.remove_slice(name)

    def set_unserved(self, pools: Mapping[PoolKey, str]) -> None:
        """Replace the pools from which no device is allocated, such as pools with another allocator.

        A refusal has the reason, like that of an invalid pool. Existing allocations are not affected.

        Args:
            pools: the pools by driver and name, with the reason of each.
        """
        self._fleet.set_unserved(pools)

    def put_class(self, device_class: DeviceClass) -> None:
        """Add or replace a DeviceClass.

        Args:
            device_class: the class. If it changed, all verdicts are computed again.
        """
        if self._classes.get(device_class.metadata.name) != device_class:
            self._classes[device_class.metadata.name] = device_class
            self._shapes.clear()

    def remove_class(self, name: str) -> None:
        """Remove a DeviceClass; a no-op if it is unknown.

        Args:
            name: the class's name.
        """
        if self._classes.pop(name, None) is not None:
            self._shapes.clear()

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim.

        Args:
            claim: the claim. A claim with an allocation holds the allocated devices. A claim without an
                allocation holds none.
        """
        self._fleet.put_claim(claim)

    def remove_claim(self, ref: str) -> None:
        """Remove a claim and release its devices; a no-op if it is unknown.

        Args:
            ref: `namespace/name`.
        """
        self._fleet.remove_claim(ref)

    def hold(self, claims: Iterable[ResourceClaim], placement: Placement) -> list[ResourceClaim]:
        """Add the claims with their allocations, so that the allocated devices are in use.

        Args:
            claims: the claims for which `place` was called.
            placement: the result of `place` for these claims.

        Returns:
            The claims in the same order, with the allocations of the placement in their status. A claim
            without an allocation in the placement is returned unchanged and not added.
        """
        allocated = []
        for claim in claims:
            allocation = placement.allocations.get(claim.metadata.uid or claim.ref)
            if allocation is not None:
                claim = replace(claim, status=replace(claim.status, allocation=allocation))  # noqa: PLW2901
                self.put_claim(claim)
            allocated.append(claim)
        return allocated

    def update(self) -> None:
        """Process the events, as far as this does not depend on claims.

        `place` does this too. A caller that calls this method after many events keeps the work out of the time
        of the first placement.
        """
        self._fleet.update_all()

    # --- answers -------------------------------------------------------------------------------

    def place(
        self,
        claims: Sequence[ResourceClaim],
        *,
        may_run_on: Callable[[AllocationNode], bool] | None = None,
        only: str | None = None,
        preferred: Iterable[str] = (),
        now: datetime | None = None,
    ) -> Placement:
        """Return the node for a pod with these claims, and their allocations on it.

        If the budget is spent before all nodes are looked at, the result is the best of those that were looked
        at. If there is none, the refusal is `undecided`, and the next call looks at the other nodes.

        Args:
            claims: the pod's claims that have no allocation yet, in the pod's order.
            may_run_on: returns whether a node may be chosen; None allows all nodes. It is called only for nodes
                on which the claims fit.
            only: the only node for which `may_run_on` may return True, if there is only one. A search among all
                nodes would read most of their names to find it.
            preferred: names of nodes. Of several equally good nodes, the first of these is chosen; if it
                contains none of them, the first by name. The names are read only as far as necessary.
            now: the allocations' timestamp; None leaves it out.

        Raises:
            NoNodeFits: no node can serve the claims, or the budget is spent.
            Refusal: a claim is wrong on every node. The kind is `claim`.
        """
        allows = None if may_run_on is None else lambda name: may_run_on(self._fleet.members[name].node)
        meter = self._start()
        try:
            shape = self._shapes.find(claims, self._classes, meter)
            best = shape.find_best(allows) if only is None else self._find_only(only, shape, allows)
            if best is not None and isinstance(best.verdict, ShapeFits):
                best = self._find_preferred(best, shape, preferred, allows)
        except BudgetSpentError:
            raise self._refusal_of_budget(meter) from None
        except Refusal as refusal:
            if refusal.kind == "undecided":  # reading the claims exceeds the budget
                raise self._refusal_of_budget(meter) from None
            raise
        if best is None:
            raise self._refusal(claims, shape, allows)
        return Placement(best.name, self._build(best, claims, now, meter))

    def place_on(
        self, name: str, claims: Sequence[ResourceClaim], *, now: datetime | None = None
    ) -> Mapping[str, Allocation] | None:
        """Return the allocations of the claims on one node; None if the claims don't fit there.

        This method is faster than `allocate_on`, because equal nodes and equal claims share one decision. It
        gives no reasons.

        Args:
            name: the node's name.
            claims: the pod's claims that have no allocation yet, in the pod's order.
            now: the allocations' timestamp; None leaves it out.

        Raises:
            Refusal: a claim is wrong on every node. The kind is `claim`.
            KeyError: the node is unknown.
        """
        meter = self._start()
        try:
            found = self._shapes.find(claims, self._classes, meter).find_on(name)
        except BudgetSpentError:
            return None
        return None if found is None else self._build(found, claims, now, meter)

    def find_fitting(
        self, claims: Sequence[ResourceClaim], names: Iterable[str], limit: int
    ) -> dict[str, Preference]:
        """Return the first nodes on which the claims fit, with their ratings: less is better.

        If the budget is spent, there may be more nodes.

        Args:
            claims: the pod's claims that have no allocation yet, in the pod's order.
            names: the names of the nodes, in order. They are read only as far as necessary.
            limit: maximum number of nodes in the result.

        Raises:
            Refusal: a claim is wrong on every node (`claim`), or reading the claims exceeds the budget
                (`undecided`).
            KeyError: a node is unknown.
        """
        found: dict[str, Preference] = {}
        meter = self._start()
        try:
            fitting = self._shapes.find(claims, self._classes, meter).iter_fitting(names)
            found.update(islice(fitting, limit))
        except BudgetSpentError:
            pass  # the nodes that were found fit
        return found

    def fits_on(self, name: str, claims: Sequence[ResourceClaim], meter: Meter) -> bool:
        """Return whether the claims fit on a node: `place_on` for a series of questions with one budget.

        Args:
            name: the node's name.
            claims: the claims that have no allocation yet, in the pod's order.
            meter: counts the work of all questions.

        Raises:
            BudgetSpentError: the budget is spent, or the search gave up on the node.
            Refusal: a claim is wrong on every node. The kind is `claim`.
            KeyError: the node is unknown.
        """
        self._start(meter)
        try:
            shape = self._shapes.find(claims, self._classes, meter)
            found = shape.find_on(name)
        except Refusal as refusal:
            if refusal.kind == "undecided":  # reading the claims exceeds the budget
                raise BudgetSpentError from None
            raise
        if found is None and any(name in node_class.nodes for node_class in shape.undecided()):
            raise BudgetSpentError
        return found is not None and isinstance(found.verdict, ShapeFits)

    def holders_on(self, name: str) -> set[str]:
        """Return the claims (`namespace/name`) that hold devices of the pools that a node reaches.

        Args:
            name: the node's name.

        Raises:
            KeyError: the node is unknown.
        """
        self._fleet.update_all()
        usage = self._fleet.usage
        return {ref for entry in self._fleet.members[name].entries for ref in usage.holders_in(entry.key)}

    def _start(self, meter: Meter | None = None) -> Meter:
        self._fleet.update_all()
        meter = meter or Meter(self._budget)
        self._evaluator.start(meter)
        return meter

    def _find_only(self, name: str, shape: Shape, allows: Allows) -> BestNode | None:
        """Return the verdict for the only node that may be allowed; None if the claims don't fit there."""
        found = shape.find_on(name) if name in self._fleet.members else None
        return found if found is not None and (allows is None or allows(name)) else None

    def _find_preferred(
        self, best: BestNode, shape: Shape, preferred: Iterable[str], allows: Allows
    ) -> BestNode:
        """Return the first preferred node that is as good as the best node; else the best node."""
        try:
            for name in preferred:
                other = shape.find_on(name) if name in self._fleet.members else None
                if other is None or not isinstance(other.verdict, ShapeFits) or other.rating != best.rating:
                    continue
                if allows is None or allows(name):
                    return other
        except BudgetSpentError:
            pass  # the best node is known
        return best

    def _build(
        self, found: BestNode, claims: Sequence[ResourceClaim], now: datetime | None, meter: Meter
    ) -> Mapping[str, Allocation]:
        if not isinstance(found.verdict, ShapeFits):
            # The claims are wrong. A search on this node raises the refusal.
            return self._try(found.name, claims, meter.renew())
        member = self._fleet.members[found.name]
        picks = [self._name_device(choice, member) for choice in found.verdict.choices]
        return build_allocations(claims, picks, member.node, self._features, now)

    def allocate_on(
        self,
        name: str,
        claims: Sequence[ResourceClaim],
        *,
        now: datetime | None = None,
        reporter: Reporter | None = None,
        meter: Meter | None = None,
    ) -> Mapping[str, Allocation]:
        """Return the allocations of the claims on one node: `allocate()` with the placer's snapshot.

        Args:
            name: the node's name.
            claims: the pod's claims that have no allocation yet, in the pod's order.
            now: the allocations' timestamp; None leaves it out.
            reporter: receives the progress of the search; None reports nothing.
            meter: counts the work; None: a new meter.

        Raises:
            Refusal: the claims don't fit on the node. The reasons are about this node.
            KeyError: the node is unknown.
        """
        meter = meter or Meter(self._budget)
        parsed = parse_claims(claims, self._classes, self._features, self._selectors, meter)
        self._fleet.update_all()
        member = self._fleet.members[name]
        devices = choose_devices(
            parsed,
            Supply(self.pools_on(name), self._features),
            member.node,
            self._features,
            order=self._order,
            reporter=reporter,
            meter=meter,
        )
        return build_allocations(claims, devices.with_names(self._features), member.node, self._features, now)

    def pools_on(self, name: str) -> Iterator[Offer]:
        """Yield each pool as a node sees it, with the use of the pool.

        Args:
            name: the node's name.

        Raises:
            KeyError: the node is unknown.
        """
        self._fleet.update_all()
        for entry in self._fleet.members[name].entries:
            yield entry.pool.on_node(), self._fleet.usage.pool(entry.key)

    def _name_device(self, choice: ClassChoice, member: FleetNode) -> ChosenDevice:
        pool = member.entries[choice.entry].pool
        example = pool.blueprint.device(choice.device)
        return ChosenDevice(
            choice.subrequest,
            DeviceId(*pool.key, pool.names.devices[choice.device]),
            example.device,
            example.source,
            choice.consumed,
            pool.declared_groups(choice.device) if self._features.compatibility_groups else {},
        )

    def _try(self, name: str, claims: Sequence[ResourceClaim], meter: Meter) -> Mapping[str, Allocation]:
        """Return the allocations on a node, or raise its refusal. The meter counts the work on all nodes."""
        try:
            with meter.one_node():
                return self.allocate_on(name, claims, meter=meter)
        except BudgetSpentError:
            raise meter.refusal(name) from None

    def _refusal_of_budget(self, meter: Meter) -> NoNodeFits:
        names = tuple(sorted(self._fleet.members))
        return NoNodeFits("undecided", len(names), lambda: [RefusedNodes(meter.refusal(), names)])

    def _refusal(
        self, claims: Sequence[ResourceClaim], shape: Shape, allows: Callable[[str], bool] | None
    ) -> NoNodeFits:
        def allowed_names(node_class: NodeClass) -> list[str]:
            return sorted(name for name in node_class.nodes if allows is None or allows(name))

        def explain() -> Iterable[RefusedNodes]:
            self._fleet.update_all()
            shape.lens.update(Meter(_UNLIMITED))
            equal_nodes = [names for names in map(allowed_names, shape.lens.classes.with_nodes()) if names]
            meter = Meter(self._budget)
            return group_by_reason(equal_nodes, lambda name: self._try(name, claims, meter))

        undecided = any(map(allowed_names, shape.undecided()))
        return NoNodeFits("undecided" if undecided else "node", len(self._fleet.members), explain)
