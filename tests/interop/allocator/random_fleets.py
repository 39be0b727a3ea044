"""Random clusters in which several nodes reach a pool, and nodes differ. Equal seeds make equal fleets.

A fleet is the state of a cluster: nodes, slices and classes. It also makes pods. `random_events` changes it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from tests.interop.allocator.random_hardware import DRIVERS, Hardware, Json, node_names, random_labels
from tests.interop.allocator.random_pods import PodWriter, random_classes
from tests.interop.allocator.random_worlds import GATES, OFF

__all__ = ["THEMES", "Change", "Fleet", "Theme", "copied", "pool_of"]

Copied = TypeVar("Copied")
Change = tuple[str, str]
"""What changed: "node", "slice" or "class", and its name. The fleet no longer has it if it was removed."""


@dataclass(frozen=True)
class Theme:
    """What a fleet is about.

    Attributes:
        weights: by kind of device, how often requests ask for it. Kinds with a weight exist.
        flavors: what devices and requests may have.
        always: the flavors that each such fleet has.
    """

    weights: Mapping[str, int]
    flavors: tuple[str, ...]
    always: frozenset[str] = frozenset()


_MANY: Final = (
    "taints", "binding", "shares", "counters", "groups", "lists", "skipped operations", "first available",
    "all", "admin", "failing", "derived",
)  # fmt: skip
THEMES: Final[Mapping[str, Theme]] = {
    "individual": Theme({"card": 5, "nic": 2}, _MANY, frozenset({"first available"})),
    "racks": Theme({"card": 3, "memory": 6}, _MANY, frozenset({"binding", "first available"})),
    "superpods": Theme({"chip": 6, "nic": 1}, _MANY),
    "reach": Theme({"loose": 5, "memory": 2}, _MANY),
    "shared": Theme({"card": 2, "nic": 1, "memory": 3, "chip": 2, "loose": 4}, _MANY, frozenset({"shares"})),
}
"""What the fleets are about, by name."""


@dataclass
class Fleet:
    """The nodes, slices and classes of a cluster, as JSON by name.

    Attributes:
        theme: a name in `THEMES`.
        careful: leave out what Kubernetes decides otherwise by design (docs/keps.md).
    """

    seed: int
    theme: str
    careful: bool = False
    gates: dict[str, bool] = field(init=False)
    nodes: dict[str, Json] = field(default_factory=dict)
    slices: dict[str, Json] = field(default_factory=dict)
    classes: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = self.chance = Random(self.seed)
        theme = THEMES[self.theme]
        self.gates = dict(GATES)
        if chance.random() < 0.7:
            self.gates.update(dict.fromkeys(OFF, True))
        if chance.random() < 0.1:
            self.gates[chance.choice(sorted(self.gates))] ^= True
        flavors = theme.always | {flavor for flavor in theme.flavors if chance.random() < 0.35}
        if not self.gates["DRADeviceCompatibilityGroups"]:
            flavors -= {"groups"}
        if not self.gates["DRADerivedAttributes"]:
            flavors -= {"derived"}
        if not self.gates["DRAOptionalNodeOperations"]:
            flavors -= {"skipped operations"}
        if self.careful and theme.weights.keys() & {"chip", "loose"}:
            # Kubernetes evaluates selectors on devices of other nodes too, where devices choose their nodes.
            flavors -= {"failing"}
        self._flavors = frozenset(flavors)
        self._hardware = Hardware(chance, self._flavors)
        self._alike = chance.random() < 0.6  # most nodes have equal devices, up to their own values
        self.classes = {each["metadata"]["name"]: each for each in random_classes(chance)}
        for name in chance.sample(node_names(), chance.randint(2, 5)):
            self.add_node(name)
        for source in self.shared_slices():
            self.slices[source["metadata"]["name"]] = source
        self._writer = self._new_writer()
        self._pods = [self._writer.pod() for _ in range(5)]

    def pod(self) -> list[Json]:
        """Return the claims of a new pod; most pods ask for what earlier pods asked for."""
        if self.chance.random() < 0.2:
            self._writer = self._new_writer()
            self._pods[self.chance.randrange(len(self._pods))] = self._writer.pod()
        claims = copied(self.chance.choice(self._pods))
        number = self.chance.randrange(10**9)
        for claim in claims:
            claim["metadata"]["name"] = claim["metadata"]["uid"] = f"{claim['metadata']['name']}-{number}"
        return claims

    @property
    def used_classes(self) -> list[str]:
        """Return the names of the classes of which most claims ask for devices."""
        return [*THEMES[self.theme].weights, "any"]

    def held(self) -> list[Json]:
        """Return claims that hold some of the devices."""
        results = [
            (source, device)
            for source in self.slices.values()
            for device in source["spec"].get("devices", ())
            if self.chance.random() < (0.03 if device.get("consumesCounters") else 0.08)
        ]
        if self.careful and "groups" in self._flavors:
            # Where devices in use have no group in common, Kubernetes' verdict depends on an order.
            results = results[:1]
        return [_held_claim(self.chance, at, *each) for at, each in enumerate(results)]

    # --- changes ---------------------------------------------------------------------------------

    def put(self, sources: Iterable[Json]) -> list[Change]:
        """Add or replace slices."""
        put = {source["metadata"]["name"]: source for source in sources}
        self.slices.update(put)
        return [("slice", name) for name in put]

    def remove(self, names: Iterable[str]) -> list[Change]:
        """Remove slices; unknown names are ignored."""
        removed = [name for name in names if self.slices.pop(name, None) is not None]
        return [("slice", name) for name in removed]

    def own_slices(self, node: str) -> list[str]:
        """Return the names of the slices of a node's own pools."""
        own = {(DRIVERS["card"], f"cards-{node}"), (DRIVERS["nic"], node)}
        return [name for name, each in self.slices.items() if pool_of(each) in own]

    def add_node(self, name: str) -> list[Change]:
        """Add or replace a node with new pools of its own."""
        labels = self.put_node(name)
        weights, made = THEMES[self.theme].weights, []
        seed = self.seed if self._alike and self.chance.random() < 0.9 else self.chance.random()
        hardware = Hardware(Random(seed), self._flavors)
        if "card" in weights and self.chance.random() < 0.9:
            made += hardware.cards(name, labels)
        if "nic" in weights and self.chance.random() < 0.8:
            made += hardware.nics(name, labels)
        return [("node", name), *self.put(made)]

    def put_node(self, name: str) -> Mapping[str, str]:
        """Add a node or replace its labels, and return them."""
        labels = random_labels(self.chance, name)
        declared = ["DRAOptionalNodeOperations"] if self.chance.random() < 0.8 else []
        status = {"declaredFeatures": declared}
        self.nodes[name] = {"metadata": {"name": name, "labels": labels}, "status": status}
        return labels

    def shared_slices(self) -> list[Json]:
        """Return new slices of the pools that several nodes reach; they are not in the fleet yet."""
        weights, chance, made = THEMES[self.theme].weights, self.chance, []
        if "memory" in weights:
            made += [each for n in range(chance.randint(1, 2)) for each in self._hardware.memory(n)]
        if "chip" in weights:
            names = node_names()
            chance.shuffle(names)
            hosts = [names[:3], names[3:6]] if chance.random() < 0.5 else [names[: chance.randint(3, 5)]]
            made += [each for n, some in enumerate(hosts) for each in self._hardware.superpod(n, some)]
        if "loose" in weights:
            made += [each for n in range(chance.randint(1, 2)) for each in self._hardware.loose(n)]
        return made

    def _new_writer(self) -> PodWriter:
        values: dict[str, dict[str, list[str | int]]] = {}
        kinds = {driver: kind for kind, driver in DRIVERS.items()}
        for source in self.slices.values():
            for device in source["spec"].get("devices", ()):
                known = values.setdefault(kinds[source["spec"]["driver"]], {})
                for name, attribute in device["attributes"].items():
                    (value,) = attribute.values()
                    if not isinstance(value, list):
                        known.setdefault(name, []).append(value)
        weights = {**THEMES[self.theme].weights}
        if not set(values) & set(weights):
            values["nic"] = {"model": ["a", "b"]}
            weights["nic"] = 1
        return PodWriter(self.chance, self._flavors, values, weights)


def _held_claim(chance: Random, number: int, source: Json, device: Json) -> Json:
    """Return a claim that holds a device of a slice."""
    spec = source["spec"]
    result: Json = {
        "request": "r",
        "driver": spec["driver"],
        "pool": spec["pool"]["name"],
        "device": device["name"],
    }
    if device.get("allowMultipleAllocations"):
        result["shareID"] = f"00000000-0000-4000-8000-{chance.randrange(10**12):012}"
        result["consumedCapacity"] = {name: chance.choice(("1", "2")) for name in device.get("capacity", ())}
    name = f"held-{number}"
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def pool_of(source: Json) -> tuple[str, str]:
    """Return driver and pool name of a slice."""
    return source["spec"]["driver"], source["spec"]["pool"]["name"]


def copied(value: Copied) -> Copied:
    """Return a copy of JSON."""
    copy: Copied = json.loads(json.dumps(value))
    return copy
