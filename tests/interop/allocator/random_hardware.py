"""Random pools: the devices of one node, and pools that several nodes reach."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

__all__ = ["DRIVERS", "Hardware", "Json", "node_names", "random_labels"]

Json = dict[str, Any]

DRIVERS: Final = {
    "card": "gpu.example.com", "nic": "nic.example.org", "memory": "cxl.example.com",
    "chip": "tpu.example.com", "loose": "any.example.net",
}  # fmt: skip
"""The driver of each kind of device."""

_NODES: Final = 7


def node_names() -> list[str]:
    """Return the names that nodes may have."""
    return [f"node-{number}" for number in range(_NODES)]


def random_labels(chance: Random, name: str) -> dict[str, str]:
    """Return labels of a node: where it stands, by which selectors of shared pools choose it."""
    labels = {"rack": chance.choice(("r0", "r0", "r1", "r2"))}
    if chance.random() < 0.8:
        labels["zone"] = chance.choice("ab")
    if chance.random() < 0.85:
        labels["kubernetes.io/hostname"] = name if chance.random() < 0.8 else chance.choice(node_names())
    return labels


@dataclass(frozen=True)
class Hardware:
    """Makes pools.

    Attributes:
        chance: the source of randomness.
        flavors: what the devices may have: "taints", "binding", "shares", "counters", "groups", "lists",
            "skipped operations".
    """

    chance: Random
    flavors: frozenset[str]

    def _has(self, flavor: str, probability: float) -> bool:
        return flavor in self.flavors and self.chance.random() < probability

    # --- pools of one node ---------------------------------------------------------------------

    def cards(self, node: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the node's cards: with attributes of their own, maybe in partitions."""
        chance, count = self.chance, self.chance.choice((1, 2, 2, 3, 4))
        partitioned = self._has("counters", 0.6)
        model = chance.choice("aab")
        devices: list[Json] = []
        for card in range(count):
            same = {
                "model": _text(model if chance.random() < 0.8 else "b"),
                "parent": _text(f"{node}-card-{card // 2}"),
                "dra.example.net/root": _text(f"{node}-root-{card % 2}"),
                "dra.example.net/rack": _text(labels.get("rack", "r9")),
            }
            parts = (("", 2), ("-x", 1), ("-y", 1)) if partitioned else (("", 2),)
            for suffix, share in parts:
                name = f"card-{card}{suffix}"
                own = {"uuid": _text(f"{node}-{name}"), "size": {"int": share * chance.choice((1, 1, 2))}}
                if chance.random() < 0.7:
                    own["serial"] = _text(chance.choice((f"{node}-{name}", "same", f"lot-{card}")))
                device = self._device(name, {**same, **own})
                if partitioned:
                    device["consumesCounters"] = [self._part(f"card-{card}", share, whole=2)]
                devices.append(device)
        sets = [_set(f"card-{card}", 2) for card in range(count)] if partitioned else []
        return self._pool("card", f"cards-{node}", devices, sets, {"nodeName": node})

    def nics(self, node: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the node's network cards, which have roots and racks in common with the other cards."""
        devices = [
            self._device(
                f"nic-{number}",
                {
                    "uuid": _text(f"{node}-nic-{number}"),
                    "model": _text(self.chance.choice("ab")),
                    "dra.example.net/root": _text(f"{node}-root-{number}"),
                    "dra.example.net/rack": _text(labels.get("rack", "r9")),
                },
            )
            for number in range(self.chance.choice((1, 2, 2)))
        ]
        return self._pool("nic", node, devices, [], {"nodeName": node})

    # --- pools that several nodes reach --------------------------------------------------------

    def memory(self, number: int) -> list[Json]:
        """Return memory behind a fabric, which some nodes reach and which is attached to one of them."""
        chance = self.chance
        reach = self._reach()
        name, rack = f"memory-{number}", chance.choice(("r0", "r0", "r1"))
        devices = []
        for at in range(chance.randint(2, 4)):
            device = self._device(
                f"memory-{at}",
                {
                    "serial": _text(f"{name}-{at}"),
                    "tier": {"int": chance.randint(1, 2)},
                    "dra.example.net/rack": _text(rack if chance.random() < 0.8 else "r2"),
                },
            )
            device["capacity"] = {"size": {"value": chance.choice(("4", "8"))}}
            if self._has("shares", 0.6):
                device["allowMultipleAllocations"] = True
                if chance.random() < 0.6:
                    policy = {"default": "1", "validRange": {"min": "1", "step": "1", "max": "8"}}
                    device["capacity"]["size"]["requestPolicy"] = policy
            devices.append(device)
        return self._pool("memory", name, devices, [], reach)

    def superpod(self, number: int, hosts: Sequence[str]) -> list[Json]:
        """Return chips of several hosts: alone, all of a host, or all of two hosts together."""
        chance, name, chips = self.chance, f"superpod-{number}", self.chance.choice((2, 3, 4))
        by_slice = chance.random() < 0.25
        devices: list[Json] = []
        for host in hosts:
            devices += [self._chips(f"chip-{host}-{chip}", name, [host], 1, chips) for chip in range(chips)]
            devices.append(self._chips(f"host-{host}", name, [host], chips, chips))
        for at in range(0, len(hosts) - 1, chance.choice((1, 2))):
            devices.append(self._chips(f"pair-{at}", name, list(hosts[at : at + 2]), chips, chips))
        sets = [_set(host, chips) for host in hosts]
        if by_slice:
            return self._by_slice(name, devices, sets)
        for device in devices:
            device.update(self._of_hosts(_hosts_of(device)))
        return self._pool("chip", name, devices, sets, {"perDeviceNodeSelection": True})

    def _by_slice(self, name: str, devices: Sequence[Json], sets: Sequence[Json]) -> list[Json]:
        """Return a pool with one slice for each set of hosts; the counters reach all nodes."""
        groups: dict[tuple[str, ...], list[Json]] = {}
        for device in devices:
            groups.setdefault(tuple(_hosts_of(device)), []).append(device)
        slices = [_slice("chip", name, f"{name}-counters", {"sharedCounters": list(sets), "allNodes": True})]
        for at, (hosts, members) in enumerate(groups.items()):
            slices.append(_slice("chip", name, f"{name}-{at}", {"devices": members, **self._of_hosts(hosts)}))
        return _counted(slices)

    def loose(self, number: int) -> list[Json]:
        """Return devices of all sorts, each of which chooses its nodes, or which choose them together."""
        chance, name = self.chance, f"loose-{number}"
        each_alone = chance.random() < 0.6
        devices = []
        for at in range(chance.randint(2, 5)):
            device = self._device(
                f"loose-{at}",
                {
                    "uuid": _text(f"{name}-{at}"),
                    "model": _text(chance.choice("ab")),
                    "dra.example.net/rack": _text(chance.choice(("r0", "r1"))),
                },
            )
            if self._has("counters", 0.5):
                device["consumesCounters"] = [self._part("both", chance.randint(1, 2), whole=3)]
            if each_alone:
                device.update(self._reach())
            devices.append(device)
        taken = any("consumesCounters" in device for device in devices)
        reach = {"perDeviceNodeSelection": True} if each_alone else self._reach()
        slices = self._pool("loose", name, devices, [_set("both", 3)] if taken else [], reach)
        if not each_alone and chance.random() < 0.3:
            for each in slices[-1:]:
                for way in reach:
                    del each["spec"][way]
                each["spec"].update(self._reach())
        return slices

    def _reach(self) -> Json:
        """Return a way to choose nodes."""
        chance = self.chance
        some = chance.sample(node_names(), chance.randint(2, 5))
        ways: list[Callable[[], Json]] = [
            lambda: {"allNodes": True},
            lambda: _selector("rack", "In", [chance.choice(("r0", "r0", "r1"))]),
            lambda: _selector("rack", "NotIn", ["r2"]),
            lambda: _selector("zone", "Exists", []),
            lambda: _selector("kubernetes.io/hostname", "In", some),
            lambda: {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": some[:1]}]}]}},
            lambda: {"nodeName": some[0]},
        ]  # fmt: skip
        return chance.choices(ways, (4, 6, 2, 2, 4, 1, 1))[0]()

    def _of_hosts(self, hosts: Sequence[str]) -> Json:
        if len(hosts) == 1 and self.chance.random() < 0.6:
            return {"nodeName": hosts[0]}
        return _selector("kubernetes.io/hostname", "In", list(hosts))

    # --- devices -------------------------------------------------------------------------------

    def _chips(self, name: str, pod: str, hosts: Sequence[str], taken: int, whole: int) -> Json:
        topology = f"{taken * len(hosts)}x1"
        attributes = {
            "topology": _text(topology),
            "hosts": {"int": len(hosts)},
            "uuid": _text(f"{pod}-{name}"),
            "host": _text(hosts[0]),
            "dra.example.net/rack": _text(pod),
        }
        device = self._device(name, attributes)
        device["consumesCounters"] = [self._part(host, taken, whole=whole) for host in hosts]
        return device

    def _part(self, of: str, taken: int, *, whole: int) -> Json:
        part: Json = {"counterSet": of, "counters": {"parts": {"value": str(taken)}}}
        if "groups" in self.flavors:
            part["compatibilityGroups"] = ["whole"] if taken == whole else ["split", f"by-{taken}"]
        return part

    def _device(self, name: str, attributes: Json) -> Json:
        chance = self.chance
        device: Json = {"name": name, "attributes": {**attributes}}
        for each in sorted(attributes):
            if chance.random() < (0.1 if "failing" in self.flavors else 0.04):
                del device["attributes"][each]
        if self._has("lists", 0.6):
            device["attributes"]["dra.example.net/numa"] = {
                "ints": chance.sample(range(4), chance.randint(1, 2))
            }
        if self._has("taints", 0.2):
            effect = chance.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": chance.choice(("bad", "worse")), "value": "", "effect": effect}]
        if self._has("binding", 0.4):
            device["bindingConditions"] = ["attached"]
            device["bindingFailureConditions"] = ["failed"]
            if chance.random() < 0.6:
                device["bindsToNode"] = True
        return device

    def _pool(
        self, kind: str, name: str, devices: Sequence[Json], sets: Sequence[Json], reach: Json
    ) -> list[Json]:
        chance = self.chance
        count = min(chance.choice((1, 1, 2)), len(devices))
        cut = len(devices) if count == 1 else chance.randint(1, len(devices) - 1)
        slices = [
            _slice(kind, name, f"{name}-{at}", {"devices": list(part), **reach})
            for at, part in enumerate((devices[:cut], devices[cut:])[:count])
        ]
        if self._has("skipped operations", 0.3):
            slices[0]["spec"]["skipNodeOperations"] = ["NodePrepareResources", "NodeUnprepareResources"]
        if sets:
            shared_reach = {"allNodes": True} if "perDeviceNodeSelection" in reach else reach
            content = {"sharedCounters": list(sets), **shared_reach}
            slices.insert(0, _slice(kind, name, f"{name}-counters", content))
        return _counted(slices)


def _text(value: str) -> Json:
    return {"string": value}


def _set(name: str, whole: int) -> Json:
    return {"name": name, "counters": {"parts": {"value": str(whole)}}}


def _hosts_of(device: Json) -> list[str]:
    return [taken["counterSet"] for taken in device["consumesCounters"]]


def _selector(key: str, operator: str, values: Sequence[str]) -> Json:
    requirement: Json = {"key": key, "operator": operator}
    if values:
        requirement["values"] = list(values)
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def _slice(kind: str, pool: str, name: str, content: Json) -> Json:
    reference = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{kind}-{name}"},
        "spec": {"driver": DRIVERS[kind], "pool": reference, **content},
    }


def _counted(slices: list[Json]) -> list[Json]:
    for each in slices:
        each["spec"]["pool"]["resourceSliceCount"] = len(slices)
    return slices
