"""Random clusters: nodes with copies of random hardware, and fleets with pools that several nodes reach."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from dradriver.allocator import AllocationNode, Features, Order
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from tests.interop.allocator.random_events import FleetEvents
from tests.interop.allocator.random_fleets import THEMES, Fleet
from tests.interop.allocator.random_worlds import NODE, random_mig_node, random_rollout, random_world
from tests.properties.allocator.clusters import Cluster

Json = dict[str, Any]

__all__ = ["MAKERS", "CopiesCluster", "FleetCluster", "make_cluster"]

_WORLDS = {"anything": random_world, "partitions": random_mig_node, "rollouts": random_rollout}
MAKERS = (*_WORLDS, *THEMES)
"""The kinds of clusters."""


def make_cluster(seed: int, order: Order, kind: str) -> Cluster:
    """Return a cluster of one of the kinds in `MAKERS`."""
    return FleetCluster(seed, order, kind) if kind in THEMES else CopiesCluster(seed, order, kind)


class FleetCluster(Cluster):
    """Nodes that differ, and pools that several of them reach: a `Fleet`."""

    def __init__(self, seed: int, order: Order, theme: str) -> None:
        self._fleet = Fleet(seed, theme)
        self._events = FleetEvents(self._fleet)
        super().__init__(order, Random(seed), Features.of_gates(self._fleet.gates))
        self.placer = self.new_placer()
        for name in self._fleet.classes:
            self._update("class", name)
        held = [from_builtins(ResourceClaim, each) for each in self._fleet.held()]
        cut = self.chance.randint(0, len(held))
        for claim in held[:cut]:  # a claim may be known before its devices
            self.put_claim(claim)
        for name in self._fleet.slices:
            self._update("slice", name)
        for name in self._fleet.nodes:
            self._update("node", name)
        for claim in held[cut:]:
            self.put_claim(claim)

    def pod(self) -> list[ResourceClaim]:
        """Return the claims of a new pod."""
        return [from_builtins(ResourceClaim, claim) for claim in self._fleet.pod()]

    def change(self) -> None:
        """Change nodes, slices or classes at random."""
        for kind, name in self._events.change():
            self._update(kind, name)

    def _update(self, kind: str, name: str) -> None:
        updates: dict[str, Callable[[str], None]] = {
            "node": self._update_node, "slice": self._update_slice, "class": self._update_class,
        }  # fmt: skip
        updates[kind](name)

    def _update_node(self, name: str) -> None:
        raw = self._fleet.nodes.get(name)
        if raw is None:
            self.remove_node(name)
        else:
            declared = frozenset(raw["status"]["declaredFeatures"])
            self.put_node(AllocationNode(name, raw["metadata"]["labels"], declared))

    def _update_slice(self, name: str) -> None:
        raw = self._fleet.slices.get(name)
        if raw is None:
            self.remove_slice(name)
        else:
            self.put_slice(from_builtins(ResourceSlice, raw))

    def _update_class(self, name: str) -> None:
        raw = self._fleet.classes.get(name)
        if raw is None:
            self.remove_class(name)
        else:
            self.put_class(from_builtins(DeviceClass, raw))


class CopiesCluster(Cluster):
    """Nodes with copies of the same hardware; with rollouts nodes may share a pool's name."""

    def __init__(self, seed: int, order: Order, kind: str) -> None:
        chance, make = Random(seed), _WORLDS[kind]
        world = make(seed)
        super().__init__(order, chance, Features.of_gates(world["gates"]))
        self._kind = kind
        self._templates = [world["slices"], make(seed + 1)["slices"]][: chance.choice((1, 1, 2))]
        self._wishes = [world["claims"]] + [make(seed + n)["claims"] for n in range(2, 6)]
        self.classes = {each["metadata"]["name"]: from_builtins(DeviceClass, each) for each in world["classes"]}
        self.placer = self.new_placer()
        for number in range(chance.randint(2, 5)):
            self._add_node(f"node-{number}")
        for raw in world["held"]:
            self.put_claim(from_builtins(ResourceClaim, raw))

    def pod(self) -> list[ResourceClaim]:
        """Return the claims of a new pod."""
        raw = json.loads(json.dumps(self.chance.choice(self._wishes)))
        number = self.chance.randrange(10**9)
        for claim in raw:
            claim["metadata"]["name"] = claim["metadata"]["uid"] = f"{claim['metadata']['name']}-{number}"
        return [from_builtins(ResourceClaim, claim) for claim in raw]

    def change(self) -> None:
        """Change nodes or slices at random."""
        self.chance.choice((self._lose_slice, self._change_slice, self._relabel, self._come_or_go))()

    def _lose_slice(self) -> None:
        if self.slices and self.chance.random() < 0.4:
            self.remove_slice(self.chance.choice(sorted(self.slices)))

    def _change_slice(self) -> None:
        if self.nodes:
            self._publish(self.chance.choice(sorted(self.nodes)), fully=self.chance.random() < 0.5)

    def _relabel(self) -> None:
        if self.nodes:
            self._put_node(self.chance.choice(sorted(self.nodes)))

    def _come_or_go(self) -> None:
        if self.nodes and self.chance.random() < 0.5:
            self.remove_node(self.chance.choice(sorted(self.nodes)))
        else:
            self._add_node(f"node-{self.chance.randrange(7)}")

    def _add_node(self, name: str) -> None:
        self._put_node(name)
        self._publish(name, fully=True)

    def _put_node(self, name: str) -> None:
        labels = {"zone": self.chance.choice("aab"), "kubernetes.io/hostname": name}
        declared = frozenset(["DRAOptionalNodeOperations"] if self.chance.random() < 0.8 else [])
        self.put_node(AllocationNode(name, labels, declared))

    def _publish(self, node: str, *, fully: bool) -> None:
        """Publish the node's copy of the hardware; devices that several nodes reach are published once."""
        named = self.chance.random() < 0.5
        one_pool = self._kind == "rollouts" and self.chance.random() < 0.5
        for raw in self.chance.choice(self._templates):
            if fully or self.chance.random() < 0.3:
                self.put_slice(from_builtins(ResourceSlice, _copied(raw, node, named=named, one_pool=one_pool)))


def _copied(raw: Json, node: str, *, named: bool, one_pool: bool) -> Json:
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
