"""Random clusters that change: nodes with copies of random hardware, and events about them."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, Order, Refusal, allocate
from dradriver.allocator.attempt import attempt, wanted_by
from dradriver.allocator.explain.refusal import Reporter
from dradriver.allocator.placement import Placement, Placer
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.allocator.supply.node_supply import Supply, offers_on
from dradriver.allocator.supply.order import Preference
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from tests.interop.allocator.random_worlds import NODE, random_mig_node, random_rollout, random_world

Json = dict[str, Any]

__all__ = ["MAKERS", "Cluster", "by_brute_force"]

MAX_STEPS = 3000
MAKERS = {"anything": random_world, "partitions": random_mig_node, "rollouts": random_rollout}
"""Where the hardware and the wishes of a cluster come from; with rollouts nodes may share a pool's name."""


@dataclass
class Cluster:
    """Everything that is known of a cluster, as a placer would have to be told.

    Attributes:
        placer: is told it event by event.
    """

    seed: int
    order: Order
    kind: str = "anything"
    nodes: dict[str, AllocationNode] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    pods: list[list[ResourceClaim]] = field(default_factory=list)
    placer: Placer = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        make = MAKERS[self.kind]
        world = make(self.seed)
        self.features = Features.of_gates(world["gates"])
        self.classes = {each["metadata"]["name"]: from_builtins(DeviceClass, each) for each in world["classes"]}
        self.stock = [world["slices"], make(self.seed + 1)["slices"]][: self.chance.choice((1, 1, 2))]
        self.wishes = [world["claims"]] + [make(self.seed + n)["claims"] for n in range(2, 6)]
        self.placer = self.told()
        for number in range(self.chance.randint(2, 5)):
            self._add_node(f"node-{number}")
        for raw in world["held"]:
            self._hold(from_builtins(ResourceClaim, raw))

    def told(self) -> Placer:
        """A placer that is told everything at once."""
        placer = Placer(order=self.order, features=self.features, max_steps=MAX_STEPS)
        for device_class in self.classes.values():
            placer.put_class(device_class)
        for claim in self.claims.values():
            placer.put_claim(claim)
        for source in self.slices.values():
            placer.put_slice(source)
        for node in self.nodes.values():
            placer.put_node(node)
        return placer

    # --- events --------------------------------------------------------------------------------

    def happen(self) -> None:
        """One event."""
        self.chance.choice((
            self._place_one, self._place_one, self._place_one, self._end_one, self._lose_slice,
            self._change_slice, self._relabel, self._come_or_go,
        ))()  # fmt: skip

    def pod(self) -> list[ResourceClaim]:
        """The claims of a new pod."""
        raw = json.loads(json.dumps(self.chance.choice(self.wishes)))
        number = self.chance.randrange(10**9)
        for claim in raw:
            claim["metadata"]["name"] = claim["metadata"]["uid"] = f"{claim['metadata']['name']}-{number}"
        return [from_builtins(ResourceClaim, claim) for claim in raw]

    def _place_one(self) -> None:
        pod = self.pod()
        placement = by_brute_force(self, pod)
        if isinstance(placement, Placement):
            for claim in self.placer.hold(pod, placement):
                self.claims[claim.ref] = claim

    def _hold(self, claim: ResourceClaim) -> None:
        self.claims[claim.ref] = claim
        self.placer.put_claim(claim)

    def _end_one(self) -> None:
        if self.claims:
            ref = self.chance.choice(sorted(self.claims))
            del self.claims[ref]
            self.placer.remove_claim(ref)

    def _lose_slice(self) -> None:
        if self.slices and self.chance.random() < 0.4:
            name = self.chance.choice(sorted(self.slices))
            del self.slices[name]
            self.placer.remove_slice(name)

    def _change_slice(self) -> None:
        if self.nodes:
            self._publish(self.chance.choice(sorted(self.nodes)), fully=self.chance.random() < 0.5)

    def _relabel(self) -> None:
        if self.nodes:
            name = self.chance.choice(sorted(self.nodes))
            self._put_node(name)

    def _come_or_go(self) -> None:
        if self.nodes and self.chance.random() < 0.5:
            name = self.chance.choice(sorted(self.nodes))
            del self.nodes[name]
            self.placer.remove_node(name)
        else:
            self._add_node(f"node-{self.chance.randrange(7)}")

    def _add_node(self, name: str) -> None:
        self._put_node(name)
        self._publish(name, fully=True)

    def _put_node(self, name: str) -> None:
        labels = {"zone": self.chance.choice("aab"), "kubernetes.io/hostname": name}
        declared = frozenset(["DRAOptionalNodeOperations"] if self.chance.random() < 0.8 else [])
        self.nodes[name] = AllocationNode(name, labels, declared)
        self.placer.put_node(self.nodes[name])

    def _publish(self, node: str, *, fully: bool) -> None:
        """The node's copy of the hardware; what several nodes reach there is once."""
        named = self.chance.random() < 0.5
        one_pool = self.kind == "rollouts" and self.chance.random() < 0.5
        for raw in self.chance.choice(self.stock):
            if fully or self.chance.random() < 0.3:
                source = from_builtins(ResourceSlice, self._copied(raw, node, named=named, one_pool=one_pool))
                self.slices[source.metadata.name] = source
                self.placer.put_slice(source)

    def _copied(self, raw: Json, node: str, *, named: bool, one_pool: bool) -> Json:
        source: Json = json.loads(json.dumps(raw))
        spec = source["spec"]
        if spec.get("nodeName") == NODE:
            spec["nodeName"] = node
            spec["pool"]["name"] += "" if one_pool else f"-{node}"
            source["metadata"]["name"] += f"-{node}"
            for device in spec.get("devices", ()) if named else ():
                _call_otherwise(device, node)
            for each in spec.get("sharedCounters", ()) if named else ():
                each["name"] += f"-{node}"
        for device in spec.get("devices", ()):
            if device.get("nodeName") == NODE:
                device["nodeName"] = node
        return source


def _call_otherwise(device: Json, node: str) -> None:
    device["name"] += f"-{node}"
    for name in ("parent", "parentUUID"):
        if name in device["attributes"]:
            device["attributes"][name]["string"] += node
    for taken in device.get("consumesCounters", ()):
        taken["counterSet"] += f"-{node}"


def by_brute_force(cluster: Cluster, pod: list[ResourceClaim]) -> Placement | str:
    """What every node in turn says: the best placement, or the kind of the refusal."""
    inventory = Inventory.of(cluster.slices.values())
    in_use = InUse.of(cluster.claims.values())
    best: tuple[Preference, str] | None = None
    kinds = set()
    try:
        wanted = wanted_by(pod, cluster.classes, cluster.features, CelSelectors())
    except Refusal as refusal:
        return refusal.kind
    for name in sorted(cluster.nodes):
        node = cluster.nodes[name]
        try:
            offers = offers_on(
                node, inventory, in_use, cluster.features, skips_devices=cluster.order.skips_devices
            )
            supply = Supply(offers, cluster.features)
            found = attempt(
                wanted, supply, node, cluster.features,
                order=cluster.order, reporter=Reporter(), max_steps=MAX_STEPS,
            )  # fmt: skip
        except Refusal as refusal:
            if refusal.kind == "claim":
                return "claim"
            kinds.add(refusal.kind)
            continue
        if best is None or (found.rating, name) < best:
            best = found.rating, name
        if cluster.order.prefers is None and not found.rating:
            break
    if best is None:
        return "undecided" if "undecided" in kinds else "node"
    node = cluster.nodes[best[1]]
    found_there = allocate(
        pod, inventory, cluster.classes, in_use, node,
        features=cluster.features, order=cluster.order, max_steps=MAX_STEPS,
    )  # fmt: skip
    return Placement(node.name, found_there)
