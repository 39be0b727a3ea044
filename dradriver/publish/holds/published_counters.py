"""The counters that one pool's allocations were made from: those that its driver last published.

A scheduler counts with the slice as it is at the time of the allocation. The slice may differ now: another
writer may have changed or deleted it, or the device may have been absent for a moment. So the publisher keeps,
for each device and each counter set, the last stored value, and `pinned_changes` compares the wanted pool with
it.

This memory ends with the process. The next process adopts the slices that it finds, because the driver before
it published them. A slice that another writer changed later does not show what was published. The server
records the writer of each field (`metadata.managedFields`), see `changed_by_others`. In that case the wanted
pool counts.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec

__all__ = ["PublishedCounters", "changed_by_others", "current_slices"]

_COUNTED: Final = ("devices", "sharedCounters")
"""The fields of a slice that a scheduler counts with. Both lists are atomic: one writer owns the whole list."""


class PublishedCounters:
    """The devices and counter sets of one pool, each as it was stored last.

    Entries that are no longer published stay until `forget`, because a claim may hold them.

    Attributes:
        devices: by name.
        counter_sets: by name.
        current: the names of the devices that are published now.
    """

    def __init__(self, slices: Iterable[ResourceSlice] = ()) -> None:
        """Adopt the slices of an earlier process.

        Args:
            slices: all slices of the pool on the server, of any generation.
        """
        self.devices: dict[str, Device] = {}
        self.counter_sets: dict[str, CounterSet] = {}
        self.current: frozenset[str] = frozenset()
        self._adopted = {item.metadata.name: item for item in _allocatable(slices)}
        for item in self._adopted.values():
            self.record_stored(item.spec)

    @property
    def adopted(self) -> bool:
        """Return whether there are slices of an earlier process whose writer was not checked yet."""
        return bool(self._adopted)

    @property
    def uses_counters(self) -> bool:
        """Return whether a device consumes counters."""
        return any(device.consumes_counters for device in self.devices.values())

    def record_stored(self, spec: ResourceSliceSpec) -> None:
        """Record a slice that was just written, as the server stored it."""
        self.devices.update((device.name, device) for device in spec.devices)
        self.counter_sets.update((counter_set.name, counter_set) for counter_set in spec.shared_counters)
        self.current |= {device.name for device in spec.devices}

    def set_current(self, devices: Iterable[Device]) -> None:
        """Record that all slices are written: these devices are published, and no others."""
        self.current = frozenset(device.name for device in devices)

    def distrust(self, slices: Collection[Mapping[str, Any]], manager: str) -> set[str]:
        """Drop the values adopted from slices that another writer had changed, unless they were stored since.

        Args:
            slices: the slices of the pool now, as the server's JSON. A slice that changed after it was adopted
                is skipped: it does not show the writer of the adopted values.
            manager: the field manager under which the driver writes.

        Returns:
            The names of the slices whose values were dropped.
        """
        same = [item for item in slices if self._is_as_adopted(item["metadata"])]
        foreign = changed_by_others(same, manager)
        for spec in (self._adopted[name].spec for name in foreign):
            for device in spec.devices:
                if self.devices.get(device.name) is device:
                    del self.devices[device.name]
            for counter_set in spec.shared_counters:
                if self.counter_sets.get(counter_set.name) is counter_set:
                    del self.counter_sets[counter_set.name]
        self._adopted = {}
        return foreign

    def _is_as_adopted(self, metadata: Mapping[str, Any]) -> bool:
        adopted = self._adopted.get(metadata["name"])
        return adopted is not None and adopted.metadata.generation == metadata.get("generation", 0)

    def forget(self, devices: Iterable[str]) -> None:
        """Forget devices that are free and not wanted, and counter sets without consumers."""
        for name in devices:
            self.devices.pop(name, None)
        used = {c.counter_set for device in self.devices.values() for c in device.consumes_counters}
        self.counter_sets = {name: known for name, known in self.counter_sets.items() if name in used}


def current_slices(seen: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the newest generation, by name."""
    known = sorted(seen, key=lambda item: item.metadata.name)
    newest = max((item.spec.pool.generation for item in known), default=0)
    return [item for item in known if item.spec.pool.generation == newest]


def changed_by_others(slices: Collection[Mapping[str, Any]], manager: str) -> set[str]:
    """Return the names of the slices whose devices or counter sets another writer wrote last.

    A pool without fields of this field manager is adopted as it is: another driver published it.

    Args:
        slices: the slices of a pool, as the server's JSON.
        manager: the field manager under which the driver writes.
    """
    owned = {item["metadata"]["name"]: _owned_fields(item, manager) for item in slices}
    if not any(owned.values()):
        return set()
    return {
        item["metadata"]["name"]
        for item in slices
        if any(item["spec"].get(field) and field not in owned[item["metadata"]["name"]] for field in _COUNTED)
    }


def _owned_fields(item: Mapping[str, Any], manager: str) -> set[str]:
    """Return the fields of the slice's spec that the manager wrote last, unchanged by others since."""
    entries = item["metadata"].get("managedFields") or ()
    return {
        field.removeprefix("f:")
        for entry in entries
        if entry.get("manager") == manager
        for field in (entry.get("fieldsV1") or {}).get("f:spec") or ()
    }


def _allocatable(seen: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices that allocations were made from; later ones in the list win.

    While a new generation is incomplete, nothing is allocated from it. Its missing parts are still in older
    ones.
    """
    known = list(seen)
    newest = current_slices(known)
    if newest and len(newest) == newest[0].spec.pool.resource_slice_count:
        return newest
    return sorted(known, key=lambda item: (item.spec.pool.generation, item.metadata.name))
