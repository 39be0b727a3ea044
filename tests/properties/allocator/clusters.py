"""A cluster that changes, as a placer receives it, and the placement that trying every node finds."""

from collections.abc import Container
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, Meter, Order, Refusal, allocate
from dradriver.allocator.device_choice import choose_devices, parse_claims
from dradriver.allocator.placement import Placement, Placer
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.allocator.supply.node_supply import Supply, iter_offers
from dradriver.allocator.supply.order import Preference
from dradriver.model.resource.claim import ClaimStatus, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Cluster", "by_brute_force"]


@dataclass
class Cluster:
    """The state of a cluster, as a placer receives it. Subclasses decide what exists and how it changes.

    Attributes:
        budget: work for the decision about one pod.
        placer: receives the state, event by event.
    """

    order: Order
    chance: Random
    features: Features = field(default_factory=Features)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    nodes: dict[str, AllocationNode] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    budget: int = 10_000_000
    placer: Placer = field(init=False)

    def new_placer(self) -> Placer:
        """Return a placer that receives the whole state at once."""
        placer = Placer(order=self.order, features=self.features, budget=self.budget)
        for device_class in self.classes.values():
            placer.put_class(device_class)
        for claim in self.claims.values():
            placer.put_claim(claim)
        for source in self.slices.values():
            placer.put_slice(source)
        for node in self.nodes.values():
            placer.put_node(node)
        return placer

    # --- what subclasses decide ----------------------------------------------------------------

    def pod(self) -> list[ResourceClaim]:
        """Return the claims of a new pod."""
        raise NotImplementedError

    def change(self) -> None:
        """Change nodes, slices or classes at random."""
        raise NotImplementedError

    # --- events --------------------------------------------------------------------------------

    def apply_event(self) -> None:
        """Apply one event: mostly of claims or of the rest, seldom one that changes nothing."""
        events = (self._place_one, self._end_one, self._revert_one, self._repeat, self.change)
        self.chance.choices(events, (30, 14, 5, 4, 47))[0]()

    def put_node(self, node: AllocationNode) -> None:
        """Add or replace a node."""
        self.nodes[node.name] = node
        self.placer.put_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node, or a name that is unknown."""
        self.nodes.pop(name, None)
        self.placer.remove_node(name)

    def put_slice(self, source: ResourceSlice) -> None:
        """Add or replace a slice."""
        self.slices[source.metadata.name] = source
        self.placer.put_slice(source)

    def remove_slice(self, name: str) -> None:
        """Remove a slice, or a name that is unknown."""
        self.slices.pop(name, None)
        self.placer.remove_slice(name)

    def put_class(self, device_class: DeviceClass) -> None:
        """Add or replace a class."""
        self.classes[device_class.metadata.name] = device_class
        self.placer.put_class(device_class)

    def remove_class(self, name: str) -> None:
        """Remove a class, or a name that is unknown."""
        self.classes.pop(name, None)
        self.placer.remove_class(name)

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim."""
        self.claims[claim.ref] = claim
        self.placer.put_claim(claim)

    def _place_one(self) -> None:
        pod = self.pod()
        placement = by_brute_force(self, pod)
        if isinstance(placement, Placement):
            for claim in self.placer.hold(pod, placement):
                self.claims[claim.ref] = claim

    def _end_one(self) -> None:
        if self.claims:
            ref = self.chance.choice(sorted(self.claims))
            del self.claims[ref]
            self.placer.remove_claim(ref)

    def _revert_one(self) -> None:
        """Take the allocation of a claim back, as after a write that failed."""
        if self.claims:
            claim = self.claims[self.chance.choice(sorted(self.claims))]
            self.put_claim(replace(claim, status=ClaimStatus()))

    def _repeat(self) -> None:
        """Put what is there already, and remove what is not."""
        self.remove_node("lost")
        self.remove_slice("lost")
        self.placer.remove_claim("default/lost")
        for claim in list(self.claims.values())[:2]:
            self.put_claim(claim)
        for source in list(self.slices.values())[:2]:
            self.put_slice(source)
        for node in list(self.nodes.values())[:2]:
            self.put_node(node)


def by_brute_force(
    cluster: Cluster, pod: list[ResourceClaim], allowed: Container[str] | None = None
) -> Placement | str:
    """Try every allowed node; return the best placement, or the kind of the refusal. None allows all nodes."""
    inventory = Inventory.of(cluster.slices.values())
    in_use = InUse.of(cluster.claims.values())
    best: tuple[Preference, str] | None = None
    kinds = set()
    try:
        wanted = parse_claims(pod, cluster.classes, cluster.features, CelSelectors(), Meter(cluster.budget))
    except Refusal as refusal:
        return refusal.kind
    for name in sorted(name for name in cluster.nodes if allowed is None or name in allowed):
        node = cluster.nodes[name]
        try:
            offers = iter_offers(
                node, inventory, in_use, cluster.features, skips_devices=cluster.order.skips_devices
            )
            supply = Supply(offers, cluster.features)
            found = choose_devices(
                wanted, supply, node, cluster.features,
                order=cluster.order, meter=Meter(cluster.budget),
            )  # fmt: skip
        except Refusal as refusal:
            if refusal.kind == "claim":
                return "claim"
            kinds.add(refusal.kind)
            continue
        if best is None or (found.rating, name) < best:
            best = found.rating, name
        if cluster.order.compute_preferences is None and not found.rating:
            break
    if best is None:
        return "undecided" if "undecided" in kinds else "node"
    node = cluster.nodes[best[1]]
    found_there = allocate(
        pod, inventory, cluster.classes, in_use, node,
        features=cluster.features, order=cluster.order, meter=Meter(cluster.budget),
    )  # fmt: skip
    return Placement(node.name, found_there)
