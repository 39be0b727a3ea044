"""Records the counters that the driver last published for a pool: its allocations were made from them.

A scheduler uses the counters that the slice has at the time of the allocation. The slice may differ now:
another writer may have changed or deleted it, or the device may have been absent for a moment. So the publisher
records the last stored value of each device and each counter set. `pinned_changes` compares the wanted pool
with these values.

The record is lost when the process ends. The next process adopts the values of the slices that it finds,
because the earlier process of the driver published them. If another writer has changed a slice since, the slice
does not show what was published, and its values are dropped: the values of the wanted pool then count. The
server records the writer of each field in `metadata.managedFields`; see `changed_by_others`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec

__all__ = ["PublishedCounters", "changed_by_others", "current_slices"]

_COUNTED: Final = ("devices", "sharedCounters")
"""The fields of a slice with which a scheduler counts. Both lists are atomic: one writer owns a whole list."""


class PublishedCounters:
    """The devices and counter sets of one pool, each with its last stored value.

    Entries that are no longer published stay until `forget`, because a claim may hold their device.

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
    def is_adopted(self) -> bool:
        """Return whether values of an earlier process were adopted and their writer was not checked yet."""
        return bool(self._adopted)

    @property
    def uses_counters(self) -> bool:
        """Return whether a device consumes counters."""
        return any(device.consumes_counters for device in self.devices.values())

    def record_stored(self, spec: ResourceSliceSpec) -> None:
        """Record the values of a slice that was just written, as the server stored them."""
        self.devices.update((device.name, device) for device in spec.devices)
        self.counter_sets.update((counter_set.name, counter_set) for counter_set in spec.shared_counters)
        self.current |= {device.name for device in spec.devices}

    def set_current(self, devices: Iterable[Device]) -> None:
        """Record that all slices are written, so that exactly these devices are published."""
        self.current = frozenset(device.name for device in devices)

    def drop_foreign(self, slices: Collection[Mapping[str, Any]], manager: str) -> set[str]:
        """Drop adopted values whose slice another writer had changed, except for values that were stored since.

        Args:
            slices: the current slices of the pool, as the server's JSON. If a slice changed after its values
                were adopted, it is skipped, because it does not show who wrote the adopted values.
            manager: the field manager name of the driver's writes.

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


def current_slices(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the newest generation, sorted by name."""
    known = sorted(slices, key=lambda item: item.metadata.name)
    newest = max((item.spec.pool.generation for item in known), default=0)
    return [item for item in known if item.spec.pool.generation == newest]


def changed_by_others(slices: Collection[Mapping[str, Any]], manager: str) -> set[str]:
    """Return the names of the slices whose devices or counter sets were last written by another writer.

    If no field of the pool belongs to this field manager, another driver published the pool, and the result is
    empty.

    Args:
        slices: the slices of a pool, as the server's JSON.
        manager: the field manager name of the driver's writes.
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
    """Return the fields of the slice's spec that were last written by the manager."""
    entries = item["metadata"].get("managedFields") or ()
    return {
        field.removeprefix("f:")
        for entry in entries
        if entry.get("manager") == manager
        for field in (entry.get("fieldsV1") or {}).get("f:spec") or ()
    }


def _allocatable(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices from which allocations were made. If two contain the same device, the later one counts.

    No device is allocated from a generation that is still incomplete. So if the newest generation is
    incomplete, all slices are returned: the older slices contain the parts that it lacks.
    """
    known = list(slices)
    newest = current_slices(known)
    if newest and len(newest) == newest[0].spec.pool.resource_slice_count:
        return newest
    return sorted(known, key=lambda item: (item.spec.pool.generation, item.metadata.name))
