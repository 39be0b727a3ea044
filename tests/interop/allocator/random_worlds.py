"""Random clusters and pods for the comparison of two allocators. Equal seeds make equal worlds."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.conformance.allocator.a100 import a100_slices

Json = dict[str, Any]

NODE: Final = "node-1"
DRIVERS: Final = ("gpu.example.com", "nic.example.org")
GATES: Final = {
    "DRAAdminAccess": True,
    "DRAConsumableCapacity": True,
    "DRADerivedAttributes": False,
    "DRADeviceBindingConditions": True,
    "DRADeviceCompatibilityGroups": False,
    "DRADeviceTaints": True,
    "DRAFractionalCapacityRange": True,
    "DRAListTypeAttributes": False,
    "DRAOptionalNodeOperations": False,
    "DRAPartitionableDevices": True,
    "DRAPrioritizedList": True,
}
"""The allocator's gates with the defaults of Kubernetes 1.37."""

OFF: Final = (
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
)
_AMOUNTS: Final = ("0", "1", "1", "1", "2", "2", "3", "500m", "750m", "1Gi", "10", "7", "1.5")


def random_world(seed: int) -> Json:
    """Return a question for both allocators: gates, node, slices, classes, held claims and a pod's claims."""
    chance = Random(seed)
    gates = dict(GATES)
    if chance.random() < 0.7:
        gates.update(dict.fromkeys(OFF, True))
    if chance.random() < 0.15:
        gates[chance.choice(sorted(gates))] = chance.random() < 0.5
    world = _World(chance, gates)
    pools = [world.pool(number) for number in range(chance.choice((1, 1, 2, 2, 3)))]
    slices = [each for pool in pools for each in pool]
    chance.shuffle(slices)
    held = world.held(slices)
    claims = [world.claim(f"claim-{number}") for number in range(chance.choice((1, 1, 1, 2, 3)))]
    return {
        "gates": gates,
        "node": {
            "metadata": {"name": NODE, "labels": {"zone": "a", "kubernetes.io/hostname": NODE}},
            "status": {"declaredFeatures": ["DRAOptionalNodeOperations"] if chance.random() < 0.7 else []},
        },
        "slices": slices,
        "classes": world.classes(),
        "held": held,
        "claims": claims,
    }


@dataclass
class _World:
    chance: Random
    gates: Mapping[str, bool]
    flavors: list[str] = field(init=False)

    def __post_init__(self) -> None:
        every = (
            "taints", "capacity", "shares", "binding", "lists", "selectors of nodes", "counters", "groups",
            "broken pools", "skipped operations", "admin", "all", "first available", "constraints", "derived",
            "failing selectors", "generations", "mixed slices",
        )  # fmt: skip
        self.flavors = self.chance.sample(every, self.chance.randint(2, 8))
        if not self.gates["DRADerivedAttributes"] and self.chance.random() < 0.95:
            self.flavors = [flavor for flavor in self.flavors if flavor != "derived"]

    def has(self, flavor: str, probability: float = 0.5) -> bool:
        return flavor in self.flavors and self.chance.random() < probability

    # --- what is offered -----------------------------------------------------------------------

    def pool(self, number: int) -> list[Json]:
        chance = self.chance
        driver, name = chance.choice(DRIVERS), f"pool-{chance.choice('abc')}{number}"
        partitioned = self.has("counters", 0.7)
        count = chance.randint(1, 3)
        devices: list[list[Json]] = [[] for _ in range(count)]
        template = self._partitions() if partitioned else []
        sets = [f"set-{at}" for at in range(chance.randint(1, 3))] if partitioned else []
        for at in range(chance.randint(3, 9)):
            device = self._device(f"dev-{at}")
            if sets and chance.random() < 0.9:
                device["consumesCounters"] = self._consumption(at, sets, template)
            chance.choice(devices).append(device)
        slices = [self._slice(driver, name, f"{name}-{at}", {"devices": d}) for at, d in enumerate(devices)]
        if sets:
            amounts = {
                "cores": {"value": str(chance.randint(2, 8))},
                "memory": {"value": f"{chance.randint(2, 8)}Gi"},
            }
            shared = [{"name": each, "counters": amounts} for each in sets]
            slices.append(self._slice(driver, name, f"{name}-counters", {"sharedCounters": shared}))
        self._place(slices)
        for each in slices:
            each["spec"]["pool"]["resourceSliceCount"] = len(slices)
        if self.has("mixed slices", 0.5):
            self._mix(slices)
        if self.has("generations", 0.7):
            slices += self._other_generation(slices)
        return self._broken(slices) if self.has("broken pools", 0.25) else slices

    def _mix(self, slices: Sequence[Json]) -> None:
        """Put devices beside counter sets, as files can; the API server rejects such a slice."""
        for each in slices:
            if "sharedCounters" in each["spec"]:
                given = self.chance.choice(slices)["spec"].get("devices", ())
                here = [device for device in given if "nodeName" not in device and "allNodes" not in device]
                each["spec"]["devices"] = [{**device, "name": f"mixed-{device['name']}"} for device in here]

    def _other_generation(self, slices: list[Json]) -> list[Json]:
        """Add slices that an update has not removed yet, or has written already, on random nodes."""
        chance = self.chance
        other: list[Json] = json.loads(json.dumps(chance.sample(slices, chance.randint(1, len(slices)))))
        generation, count = chance.choice((2, 4)), chance.choice((len(other), len(other), len(slices), 1))
        for each in other:
            each["metadata"]["name"] += f"-{generation}"
            each["spec"]["pool"].update(generation=generation, resourceSliceCount=count)
        if all("nodeName" in each["spec"] for each in slices) and chance.random() < 0.7:
            for members in (slices, other):
                self._scatter(members)
        return other

    def _scatter(self, slices: Sequence[Json]) -> None:
        """Give each slice to one of two nodes; the slices of a node agree on their number."""
        chance = self.chance
        for each in slices:
            each["spec"]["nodeName"] = chance.choice((NODE, NODE, "node-2"))
        for node in (NODE, "node-2"):
            here = [each for each in slices if each["spec"]["nodeName"] == node]
            count = chance.choice((len(here), len(slices), len(slices) + 1))
            for each in here:
                each["spec"]["pool"]["resourceSliceCount"] = count

    def _slice(self, driver: str, pool: str, name: str, spec: Json) -> Json:
        reference = {"name": pool, "generation": 3, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": reference, **spec}
        # Without alpha features, Kubernetes 1.37 ignores the field.
        if "devices" in spec and any(map(self.gates.get, OFF)) and self.has("skipped operations", 0.3):
            spec["skipNodeOperations"] = ["NodePrepareResources", "NodeUnprepareResources"]
        return {"metadata": {"name": name}, "spec": spec}

    def _place(self, slices: Sequence[Json]) -> None:
        """Set the nodes that reach the slices."""
        chance = self.chance
        ways: list[Callable[[], Json]] = [
            lambda: {"nodeName": NODE},
            lambda: {"allNodes": True},
            lambda: {"nodeSelector": _zone(chance.choice("aaab"), chance)},
            lambda: {"nodeName": "node-2"},
        ]
        one = {"nodeName": NODE}
        mixed = self.has("selectors of nodes", 0.6)
        for each in slices:
            spec = each["spec"]
            if not mixed:
                spec.update(one)
            elif "devices" in spec and chance.random() < 0.3:
                spec["perDeviceNodeSelection"] = True
                for device in spec["devices"]:
                    device.update(chance.choices(ways, (6, 2, 3, 1))[0]())
            else:
                spec.update(chance.choices(ways, (6, 2, 3, 1))[0]())

    def _broken(self, slices: list[Json]) -> list[Json]:
        chance = self.chance
        with_devices = [each for each in slices if each["spec"].get("devices")]
        match chance.randint(0, 4):
            case 0:
                return slices[1:]
            case 1:
                # A new one. Where slices of one generation disagree on their number, Kubernetes takes that of
                # the first slice, and ours finds the pool incomplete (docs/keps.md).
                there = {each["spec"]["pool"]["generation"] for each in slices}
                new = [generation for generation in (1, 2, 4, 5) if generation not in there]
                chance.choice(slices)["spec"]["pool"]["generation"] = chance.choice(new)
            case 2 if with_devices:
                # In every slice: Kubernetes compares the names of those that the node reaches, ours all.
                for each in with_devices:
                    each["spec"]["devices"].append(dict(each["spec"]["devices"][0]))
            case 3 if with_devices:
                device = chance.choice(with_devices)["spec"]["devices"][0]
                device["consumesCounters"] = [
                    {"counterSet": "set-0", "counters": {chance.choice(("cores", "lost")): {"value": "1"}}}
                ]
            case _:
                for each in slices:
                    each["spec"]["pool"]["resourceSliceCount"] += 1
        return slices

    def _partitions(self) -> list[Json]:
        return [
            {
                "cores": {"value": str(self.chance.randint(0, 4))},
                "memory": {"value": f"{self.chance.randint(1, 4)}Gi"},
            }
            for _ in range(self.chance.randint(1, 3))
        ]

    def _consumption(self, at: int, sets: Sequence[str], template: Sequence[Json]) -> list[Json]:
        chance = self.chance
        several = len(sets) > 1 and chance.random() < 0.2
        chosen = chance.sample(list(sets), 2) if several else [sets[at % len(sets)]]
        found: list[Json] = [{"counterSet": each, "counters": chance.choice(template)} for each in chosen]
        for each in found:
            if self.has("groups", 0.7):
                each["compatibilityGroups"] = chance.sample(("mig", "vgpu", "other"), chance.choice((1, 1, 2)))
        return found

    def _device(self, name: str) -> Json:
        chance = self.chance
        device: Json = {"name": name, "attributes": self._attributes()}
        if self.has("capacity", 0.7) or "shares" in self.flavors:
            device["capacity"] = self._capacities()
        if self.has("shares", 0.7):
            device["allowMultipleAllocations"] = True
        if self.has("taints", 0.4):
            device["taints"] = [self._taint() for _ in range(chance.randint(1, 2))]
        if self.has("binding", 0.4):
            device["bindingConditions"] = ["attached"]
            device["bindingFailureConditions"] = ["failed"]
            if chance.random() < 0.5:
                device["bindsToNode"] = True
        return device

    def _attributes(self) -> Json:
        chance = self.chance
        found: Json = {}
        texts = {"model": ("a", "b", "c"), "parent": ("p0", "p1"), "dra.example.net/rack": ("r0", "r1")}
        for attribute, values in texts.items():
            if chance.random() < 0.85:
                found[attribute] = {"string": chance.choice(values)}
        if chance.random() < 0.7:
            found["size"] = {"int": chance.randint(1, 3)}
        if self.has("lists", 0.6):
            found["numa"] = chance.choice((
                {"ints": chance.sample((0, 1, 2, 3), chance.randint(1, 3))},
                {"int": chance.randint(0, 3)},
                {"strings": ["x", "y"]},
                {"versions": ["1.0.0"]},
            ))  # fmt: skip
        if chance.random() < 0.3:
            found["driverVersion"] = {"version": chance.choice(("1.0.0", "1.0.1", "2.0.0"))}
        return found

    def _capacities(self) -> Json:
        found: Json = {}
        for name in self.chance.sample(
            ("memory", "bandwidth", "gpu.example.com/slots"), self.chance.choice((0, 1, 2, 2, 3))
        ):
            found[name] = {"value": self.chance.choice(("2", "4", "4Gi", "10", "2500m"))}
            if self.has("shares", 0.8) and (policy := self._policy()):
                found[name]["requestPolicy"] = policy
        return found

    def _policy(self) -> Json | None:
        chance = self.chance
        match chance.randint(0, 3):
            case 0:
                values = sorted(chance.sample((1, 2, 3, 5), chance.randint(1, 3)))
                return {"default": str(values[0]), "validValues": [str(value) for value in values]}
            case 1:
                return {
                    "default": "1",
                    "validRange": {"min": "1", "step": chance.choice(("1", "2")), "max": "9"},
                }
            case 2:
                step = chance.choice(("500m", "250m", "100m", "1m"))
                return {"default": "500m", "validRange": {"min": "500m", "step": step}}
            case _:
                return chance.choice((None, {"default": "1"}))

    def _taint(self) -> Json:
        effect = self.chance.choice(("NoSchedule", "NoExecute", "None"))
        return {
            "key": self.chance.choice(("bad", "worse")),
            "value": self.chance.choice(("", "x")),
            "effect": effect,
        }

    # --- what is held --------------------------------------------------------------------------

    def held(self, slices: Sequence[Json]) -> list[Json]:
        chance = self.chance
        found: list[Json] = []
        for each in slices:
            for device in each["spec"].get("devices", ()):
                # Where drivers changed groups in use, Kubernetes' verdict depends on an order; ours is no.
                if chance.random() < 0.12 and not (self.has("groups", 1.0) and found):
                    found += [self._holder(each["spec"], device) for _ in range(chance.choice((1, 1, 2)))]
        return [_held(at, result) for at, result in enumerate(found)]

    def claim_with(self, number: int, spec: Json, device: Json) -> Json:
        """Return a claim that holds the device of a slice."""
        return _held(number, self._holder(spec, device))

    def _holder(self, spec: Json, device: Json) -> Json:
        result = {
            "request": "r",
            "driver": spec["driver"],
            "pool": spec["pool"]["name"],
            "device": device["name"],
        }
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-4000-8000-{self.chance.randrange(10**12):012}"
            if device.get("capacity"):
                result["consumedCapacity"] = {
                    name: self.chance.choice(("1", "500m", capacity["value"]))
                    for name, capacity in device["capacity"].items()
                }
        elif self.has("admin", 0.2):
            result["adminAccess"] = True
        return result

    # --- what is wanted ------------------------------------------------------------------------

    def classes(self) -> list[Json]:
        config = [{"opaque": {"driver": DRIVERS[0], "parameters": {"mode": "fast"}}}]
        return [
            {"metadata": {"name": "any"}, "spec": {}},
            {"metadata": {"name": "gpu"}, "spec": {
                "selectors": [{"cel": {"expression": f"device.driver == '{DRIVERS[0]}'"}}], "config": config}},
            {"metadata": {"name": "small"}, "spec": {
                "selectors": [{"cel": {"expression": _optional("size", 9, "<= 2")}}]}},
        ]  # fmt: skip

    def claim(self, name: str) -> Json:
        chance = self.chance
        requests = [self._request(f"r{number}") for number in range(chance.choice((1, 1, 2, 2, 3)))]
        names = [r["name"] for r in requests]
        names += [f"{r['name']}/{sub['name']}" for r in requests for sub in r.get("firstAvailable", ())]
        devices: Json = {"requests": requests}
        if self.has("constraints", 0.9):
            devices["constraints"] = [self._constraint(names) for _ in range(chance.choice((1, 1, 2)))]
        if chance.random() < 0.3:
            devices["config"] = [
                {"requests": chance.sample(names, chance.randint(0, len(names))),
                 "opaque": {"driver": DRIVERS[0], "parameters": {"n": number}}}
                for number in range(chance.randint(1, 2))
            ]  # fmt: skip
        return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}

    def _request(self, name: str) -> Json:
        if self.has("first available", 0.6):
            subs = [{"name": f"s{n}", **self._exact_request()} for n in range(self.chance.randint(1, 3))]
            return {"name": name, "firstAvailable": subs}
        request = self._exact_request()
        if self.has("admin", 0.5):
            request["adminAccess"] = self.chance.random() < 0.8
        return {"name": name, "exactly": request}

    def _exact_request(self) -> Json:
        chance = self.chance
        request: Json = {
            "deviceClassName": chance.choices(("any", "gpu", "small", "lost"), (700, 200, 98, 2))[0]
        }
        if self.has("all", 0.3):
            request["allocationMode"] = "All"
        else:
            request.update(allocationMode="ExactCount", count=chance.choice((1, 1, 1, 2, 2, 3)))
        if chance.random() < 0.4:
            request["selectors"] = [
                {"cel": {"expression": self._expression()}} for _ in range(chance.choice((1, 1, 1, 2)))
            ]
        if self.has("taints", 0.6):
            request["tolerations"] = [self._toleration() for _ in range(chance.randint(1, 2))]
        if self.has("capacity", 0.5) or self.has("shares", 0.7):
            names = chance.sample(("memory", "bandwidth", "gpu.example.com/slots"), chance.choice((0, 1, 1, 2)))
            request["capacity"] = {"requests": {each: chance.choice(_AMOUNTS) for each in names}}
        if self.has("derived", 0.6):
            request["derivedAttributes"] = [self._derived()]
        return request

    def _derived(self) -> Json:
        expression = self.chance.choice((
            "device.driver",
            f"{_optional('size', 9, '% 2')}",
            f"{_optional('model', 'z', '')}.lowerAscii()",
            f"{_optional('size', 9, '>= 2')}",
            "[1, 2]",
            f"[{_optional('parent', 'p0', '')}]",
        ))  # fmt: skip
        return {
            "name": self.chance.choice(("derived.example.com/kind", f"{DRIVERS[0]}/model")),
            "expression": expression,
        }

    def _expression(self) -> str:
        # Kubernetes evaluates selectors on devices of other nodes too; ours does not.
        if "selectors of nodes" not in self.flavors and self.has("failing selectors", 0.15):
            return f"device.attributes['{self.chance.choice(DRIVERS)}'].model == '{self.chance.choice('ab')}'"
        return self.chance.choice((
            "true",
            _optional("model", "z", f"in ['{self.chance.choice('abc')}', '{self.chance.choice('abc')}']"),
            _optional("size", 9, f">= {self.chance.randint(1, 3)}"),
            _optional("parent", "p9", f"== 'p{self.chance.randint(0, 1)}'"),
            "!device.allowMultipleAllocations",
            "device.driver == 'gpu.example.com'",
        ))  # fmt: skip

    def _toleration(self) -> Json:
        found: Json = {"operator": self.chance.choice(("Exists", "Equal"))}
        found["key"] = self.chance.choice(("bad", "worse"))
        if found["operator"] == "Equal":
            found["value"] = self.chance.choice(("", "x"))
        elif self.chance.random() < 0.2:
            del found["key"]
        if self.chance.random() < 0.3:
            found["effect"] = self.chance.choice(("NoSchedule", "NoExecute"))
        return found

    def _constraint(self, names: Sequence[str]) -> Json:
        chance = self.chance
        attribute = chance.choice((
            "gpu.example.com/parent", "gpu.example.com/model", "gpu.example.com/numa", "dra.example.net/rack",
            "gpu.example.com/size", "gpu.example.com/driverVersion", "derived.example.com/kind",
        ))  # fmt: skip
        kind = chance.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        covered = [] if chance.random() < 0.5 else chance.sample(list(names), chance.randint(1, len(names)))
        return {"requests": covered, kind: attribute}


def _optional(attribute: str, otherwise: object, rest: str) -> str:
    return f"device.attributes[device.driver].?{attribute}.orValue({otherwise!r}) {rest}".strip()


def _held(number: int, result: Json) -> Json:
    name = f"held-{number}"
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def _zone(zone: str, chance: Random) -> Json:
    expressions = [{"key": "zone", "operator": "In", "values": [zone]}]
    if chance.random() < 0.3:
        expressions.append({"key": "kubernetes.io/hostname", "operator": "Exists"})
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def random_mig_node(seed: int) -> Json:
    """Return a partly used node of A100s with every placement of every MIG profile, and a pod for it."""
    chance = Random(seed)
    gpus = chance.randint(1, 4)
    slices = a100_slices(NODE, gpus)
    holders = [
        (each["spec"], device)
        for each in slices
        for device in each["spec"].get("devices", ())
        if chance.random() < 0.1 / gpus
    ]
    world = _World(chance, GATES)
    return {
        "gates": GATES,
        "node": {"metadata": {"name": NODE, "labels": {}}, "status": {"declaredFeatures": []}},
        "slices": slices,
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "held": [world.claim_with(number, *each) for number, each in enumerate(holders)],
        "claims": [_mig_claim(chance, f"claim-{number}") for number in range(chance.choice((1, 1, 2)))],
    }


def random_rollout(seed: int) -> Json:
    """Return pools with several published generations, on two nodes, and a pod."""
    chance = Random(seed)
    gates = {**GATES, "DRADeviceCompatibilityGroups": chance.random() < 0.6}
    gates["DRAPartitionableDevices"] = gates["DRADeviceCompatibilityGroups"] or chance.random() < 0.8
    world = _World(chance, gates)
    sometimes = [
        flavor for flavor in ("counters", "groups", "mixed slices", "binding") if chance.random() < 0.4
    ]
    world.flavors = ["generations", *sometimes]
    slices = [each for number in range(chance.choice((1, 1, 2))) for each in world.pool(number)]
    chance.shuffle(slices)
    request: Json = {
        "deviceClassName": "any",
        "allocationMode": chance.choice(("All", "ExactCount", "ExactCount")),
    }
    if request["allocationMode"] == "ExactCount":
        request["count"] = chance.choice((1, 1, 2, 3))
    devices = {"requests": [{"name": "r", "exactly": request}]}
    return {
        "gates": gates,
        "node": {"metadata": {"name": NODE, "labels": {}}, "status": {"declaredFeatures": []}},
        "slices": slices,
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "held": world.held(slices),
        "claims": [
            {"metadata": {"name": "c", "namespace": "default", "uid": "c"}, "spec": {"devices": devices}}
        ],
    }


def random_plain_world(seed: int) -> Json:
    """Return usable pools without shared devices, partly used, and no claims."""
    chance = Random(seed)
    world = _World(chance, {**GATES, **dict.fromkeys(OFF, chance.random() < 0.8)})
    flavors = ("taints", "binding", "lists", "counters", "groups", "selectors of nodes", "mixed slices")
    world.flavors = chance.sample(flavors, chance.randint(1, 5))
    slices = [each for number in range(chance.choice((1, 2, 3))) for each in world.pool(number)]
    return {
        "gates": world.gates,
        "node": {"metadata": {"name": NODE, "labels": {"zone": "a"}}, "status": {"declaredFeatures": []}},
        "slices": slices,
        "classes": [],
        "held": world.held(slices),
        "claims": [],
    }


def _mig_claim(chance: Random, name: str) -> Json:
    requests = []
    for number in range(chance.randint(1, 4)):
        profile = chance.choices(("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"), (50, 25, 15, 5, 5))[0]
        expression = f"device.attributes['gpu.nvidia.com'].?profile.orValue('') == '{profile}'"
        request = {
            "deviceClassName": "any",
            "allocationMode": "ExactCount",
            "count": chance.choice((1, 1, 1, 2)),
        }
        selectors = [{"cel": {"expression": expression}}] if chance.random() < 0.9 else []
        requests.append({"name": f"r{number}", "exactly": {**request, "selectors": selectors}})
    devices: Json = {"requests": requests}
    if chance.random() < 0.4:
        devices["constraints"] = [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}
