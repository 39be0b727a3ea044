"""Random claims of pods, for the devices that a cluster has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.interop.allocator.random_hardware import DRIVERS, Json
from tests.interop.allocator.random_selectors import Values, random_selector

__all__ = ["PodWriter", "random_classes"]

_RESTRICTIONS: Final = (
    "device.attributes[device.driver].?model.orValue('a') == 'a'",
    "device.attributes['dra.example.net'].?rack.orValue('r0') != 'r1'",
    "!device.allowMultipleAllocations",
)
"""What a class may require beside the driver."""


def random_classes(chance: Random) -> list[Json]:
    """Return the classes: one for each kind of device, and classes for several kinds."""
    selectors = {kind: f"device.driver == '{driver}'" for kind, driver in DRIVERS.items()}
    selectors["any"] = "true"
    selectors["near"] = f"device.driver in ['{DRIVERS['card']}', '{DRIVERS['nic']}']"
    selectors["far"] = f"!(device.driver in ['{DRIVERS['card']}', '{DRIVERS['nic']}'])"
    for name in selectors:
        if chance.random() < 0.2:
            selectors[name] += f" && {chance.choice(_RESTRICTIONS)}"
    return [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}}]}}
        for name, text in selectors.items()
    ]


@dataclass(frozen=True)
class PodWriter:
    """Writes the claims of pods.

    Attributes:
        chance: the source of randomness.
        flavors: what requests may have, beside what devices may have: "first available", "all", "admin",
            "derived", "failing".
        values: by kind of device, the published values. Only kinds with devices are present.
        weights: by kind of device, how often requests ask for it.
        largest: maximum number of requests in a claim.
    """

    chance: Random
    flavors: frozenset[str]
    values: Mapping[str, Values]
    weights: Mapping[str, int]
    largest: int = 3

    def pod(self) -> list[Json]:
        """Return the claims of a pod."""
        return [self._claim(f"claim-{number}") for number in range(self.chance.choice((1, 1, 1, 2)))]

    def _has(self, flavor: str, probability: float) -> bool:
        return flavor in self.flavors and self.chance.random() < probability

    def _claim(self, name: str) -> Json:
        chance = self.chance
        count = min(chance.choice((1, 1, 1, 2, 2, 3)), self.largest)
        requests = [self._request(f"r{number}") for number in range(count)]
        names = [request["name"] for request in requests]
        names += [
            f"{each['name']}/{sub['name']}" for each in requests for sub in each.get("firstAvailable", ())
        ]
        devices: Json = {"requests": requests}
        several = count > 1 or any(each.get("exactly", {}).get("count", 2) > 1 for each in requests)
        if chance.random() < (0.5 if several else 0.1):
            kinds = self._kinds_of(requests)
            devices["constraints"] = [
                self._constraint(names, kinds) for _ in range(chance.choice((1, 1, 1, 2)))
            ]
        return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}

    def _request(self, name: str) -> Json:
        chance = self.chance
        if self._has("first available", 0.35):
            subs = [{"name": f"s{n}", **self._exact_request()} for n in range(chance.choice((2, 2, 3)))]
            return {"name": name, "firstAvailable": subs}
        request = self._exact_request()
        if self._has("admin", 0.25):
            request["adminAccess"] = True
        return {"name": name, "exactly": request}

    def _exact_request(self) -> Json:
        chance = self.chance
        kinds = [kind for kind in self.values if self.weights.get(kind)]
        kind = chance.choices(kinds, [self.weights[each] for each in kinds])[0]
        request: Json = {"deviceClassName": self._class_of(kind)}
        if self._has("all", 0.15):
            request["allocationMode"] = "All"
        else:
            request.update(allocationMode="ExactCount", count=chance.choice((1, 1, 1, 1, 1, 1, 2, 2, 3)))
        if chance.random() < 0.45:
            number = chance.choice((1, 1, 1, 2))
            request["selectors"] = [{"cel": {"expression": self._selector(kind)}} for _ in range(number)]
        if self._has("taints", 0.7):
            request["tolerations"] = [{"operator": "Exists", "key": chance.choice(("bad", "worse"))}]
        if self._has("derived", 0.5):
            request["derivedAttributes"] = [self._derived(kind)]
        if kind == "memory" and self._has("shares", 0.7):
            request["capacity"] = {"requests": {"size": chance.choice(("1", "2", "2", "3", "500m"))}}
        return request

    def _class_of(self, kind: str) -> str:
        wide = "near" if kind in {"card", "nic"} else "far"
        return self.chance.choices((kind, wide, "any", "lost"), (800, 100, 90, 8))[0]

    def _selector(self, kind: str) -> str:
        return random_selector(
            self.chance, DRIVERS[kind], self.values[kind], may_fail=self._has("failing", 0.7)
        )

    def _derived(self, kind: str) -> Json:
        """Return an attribute that is computed from a published one, beside it or in its place."""
        name = self.chance.choice(sorted(self.values[kind]))
        domain, _, short = name.rpartition("/")
        otherwise = "0" if isinstance(self.values[kind][name][0], int) else "'none'"
        expression = f"device.attributes['{domain or DRIVERS[kind]}'].?{short}.orValue({otherwise})"
        if otherwise == "'none'" and self.chance.random() < 0.5:
            expression += ".substring(0, 2)"
        return {
            "name": self.chance.choice(("derived.example.com/kind", "dra.example.net/rack")),
            "expression": expression,
        }

    def _kinds_of(self, requests: Sequence[Json]) -> list[str]:
        """Return the kinds of devices that the requests can get."""
        entries = [
            each for request in requests for each in request.get("firstAvailable", [request.get("exactly")])
        ]
        classes = {each["deviceClassName"] for each in entries}
        return [kind for kind in self.values if kind in classes] or list(self.values)

    def _constraint(self, names: Sequence[str], kinds: Sequence[str]) -> Json:
        """Return a constraint; mostly about an attribute that all these kinds have."""
        chance = self.chance
        attributes = {
            name if "/" in name else f"{DRIVERS[kind]}/{name}" for kind in kinds for name in self.values[kind]
        }
        common = [name for name in attributes if all(name in self.values[kind] for kind in kinds)]
        if common and chance.random() < 0.8:
            attributes = set(common)
        if "lists" in self.flavors and chance.random() < 0.3:
            attributes = {"dra.example.net/numa"}
        if "derived" in self.flavors and chance.random() < 0.4:
            attributes = {"derived.example.com/kind"}
        way = chance.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        covered = [] if chance.random() < 0.6 else chance.sample(list(names), chance.randint(1, len(names)))
        return {"requests": covered, way: chance.choice(sorted(attributes))}
