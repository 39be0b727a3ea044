"""Random events in a fleet: nodes come, go and are labeled anew; slices are edited, lost and replaced."""

from collections.abc import Callable

from tests.interop.allocator.random_fleets import Change, Fleet, copied, pool_of
from tests.interop.allocator.random_hardware import Json, node_names
from tests.interop.allocator.random_pods import random_classes

__all__ = ["FleetEvents"]


class FleetEvents:
    """Changes a fleet.

    Args:
        fleet: the fleet.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._later: list[Callable[[], list[Change]]] = []

    def change(self) -> list[Change]:
        """Change the cluster at random and return what changed."""
        if self._later and self._fleet.chance.random() < 0.5:
            return self._later.pop(0)()
        events = (
            self._relabel, self._relabel, self._come_or_go, self._come_or_go, self._lose_slice,
            self._edit_slice, self._edit_slice, self._roll_out, self._share_anew, self._edit_class,
        )  # fmt: skip
        return self._fleet.chance.choice(events)()

    def _relabel(self) -> list[Change]:
        if not self._fleet.nodes:
            return []
        name = self._fleet.chance.choice(sorted(self._fleet.nodes))
        self._fleet.put_node(name)
        return [("node", name)]

    def _come_or_go(self) -> list[Change]:
        if len(self._fleet.nodes) > 1 and self._fleet.chance.random() < 0.4:
            name = self._fleet.chance.choice(sorted(self._fleet.nodes))
            del self._fleet.nodes[name]
            return [("node", name)]
        name = self._fleet.chance.choice(node_names())
        return [*self._fleet.remove(self._fleet.own_slices(name)), *self._fleet.add_node(name)]

    def _lose_slice(self) -> list[Change]:
        if not self._fleet.slices or self._fleet.chance.random() < 0.6:
            return []
        name = self._fleet.chance.choice(sorted(self._fleet.slices))
        self._later.append(self._put_later(self._fleet.slices[name]))
        return self._fleet.remove([name])

    def _edit_slice(self) -> list[Change]:
        """Change, take away or add a device."""
        chance = self._fleet.chance
        names = sorted(name for name, each in self._fleet.slices.items() if each["spec"].get("devices"))
        if not names:
            return []
        name = chance.choice(names)
        source = self._fleet.slices[name] = copied(self._fleet.slices[name])
        return self._edit(source)

    def _edit(self, source: Json) -> list[Change]:
        chance, devices = self._fleet.chance, source["spec"]["devices"]
        device = chance.choice(devices)
        match chance.randint(0, 4):
            case 0:
                name, other = chance.choice(sorted(device["attributes"])), chance.choice(devices)
                device["attributes"][name] = other["attributes"].get(name, device["attributes"][name])
            case 1:
                device["taints"] = [
                    {"key": "bad", "value": "", "effect": chance.choice(("NoSchedule", "None"))}
                ]
            case 2 if len(devices) > 1:
                devices.remove(device)
            case 3:
                devices.append({**copied(device), "name": f"extra-{chance.randrange(10**6)}"})
            case _:
                device.pop("taints", None)
        return [("slice", source["metadata"]["name"])]

    def _roll_out(self) -> list[Change]:
        """Begin to replace a pool by its next generation, slice by slice."""
        pools = sorted({pool_of(each) for each in self._fleet.slices.values()})
        if not pools:
            return []
        pool = self._fleet.chance.choice(pools)
        old = [name for name, each in self._fleet.slices.items() if pool_of(each) == pool]
        for name in old:
            new = copied(self._fleet.slices[name])
            new["spec"]["pool"]["generation"] += 1
            if self._fleet.chance.random() < 0.5:
                new["metadata"]["name"] += "-next"
                self._later.append(self._remove_later(name))
            self._later.append(self._put_later(new))
        self._fleet.chance.shuffle(self._later)
        return self._later.pop(0)()

    def _share_anew(self) -> list[Change]:
        """Publish the pools that several nodes reach again, otherwise."""
        if self._fleet.chance.random() < 0.5:
            return []
        new = self._fleet.shared_slices()
        if not new:
            return []
        pool = pool_of(self._fleet.chance.choice(new))
        gone = self._fleet.remove([name for name, each in self._fleet.slices.items() if pool_of(each) == pool])
        return gone + self._fleet.put([each for each in new if pool_of(each) == pool])

    def _edit_class(self) -> list[Change]:
        name = self._fleet.chance.choice(self._fleet.used_classes)
        if name in self._fleet.classes and self._fleet.chance.random() < 0.2:
            del self._fleet.classes[name]
        else:
            self._fleet.classes[name] = next(
                each for each in random_classes(self._fleet.chance) if each["metadata"]["name"] == name
            )
        return [("class", name)]

    def _put_later(self, source: Json) -> Callable[[], list[Change]]:
        return lambda: self._fleet.put([source])

    def _remove_later(self, name: str) -> Callable[[], list[Change]]:
        return lambda: self._fleet.remove([name])
