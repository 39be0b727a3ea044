"""The compatibility groups in force for an allocated device, recorded in its claim (KEP-5963).

A driver may change the groups of a device that is in use. The groups at the time of the allocation decide about
later allocations, so they are recorded in the allocation: in `compatibilityGroups` of the result, by counter
set, for each device that declares any. A record in a claim covers all its devices: devices that it does not
list had no groups. The groups are read from the slices only for a claim without a record.

Kubernetes 1.37 drops that field. For such an API server, the record is stored in
`status.allocation.devices.config`, in opaque parameters under this package's name. The API server keeps these
bytes, no client may change them, and a driver does not see them as its own configuration. `source: FromClass`
distinguishes them from configuration that a user writes into a claim.

    source: FromClass
    opaque:
      driver: allocator.dradriver.dev
      parameters: {"groups": {"0": {"gpu-0-counters": ["mig"]}}, "kind": "CompatibilityGroups"}

The keys of `groups` are positions in `results`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from dradriver.model.resource.claim import Allocation, AllocationConfig, DeviceResult, OpaqueConfig
from dradriver.model.resource.device import Device

__all__ = [
    "SNAPSHOT_DRIVER",
    "GroupsByDevice",
    "GroupsBySet",
    "declared_groups",
    "groups_in_force",
    "has_groups",
    "recorded_in_config",
]

SNAPSHOT_DRIVER: Final = "allocator.dradriver.dev"
"""The driver name of the record; no driver has this name."""

GroupsBySet: TypeAlias = Mapping[str, tuple[str, ...]]
"""Maps a counter set to compatibility groups."""

GroupsByDevice: TypeAlias = Mapping[str, GroupsBySet]

_KIND: Final = "CompatibilityGroups"
_MAX_BYTES: Final = 10_240
_MAX_ENTRIES: Final = 64


class _Parameters(msgspec.Struct):
    kind: str
    groups: dict[str, dict[str, list[str]]] = {}


_READER: Final = msgspec.json.Decoder(_Parameters)


def declared_groups(device: Device) -> GroupsBySet:
    """Return the groups that a device declares for the counter sets from which it consumes."""
    return {taken.counter_set: tuple(taken.compatibility_groups) for taken in device.consumes_counters}


def has_groups(allocation: Allocation) -> bool:
    """Return whether a result has compatibility groups."""
    return any(result.compatibility_groups for result in allocation.devices.results)


def recorded_in_config(allocation: Allocation) -> Allocation:
    """Return the allocation with its record in entries of `config`.

    This form is for an API server that drops the results' field. If a claim has no room for more entries (64),
    nothing is recorded, and the groups are read from the slices, as in Kubernetes.
    """
    devices = allocation.devices
    groups = {
        str(index): result.compatibility_groups
        for index, result in enumerate(devices.results)
        if result.compatibility_groups
    }
    config = [*devices.config, *_entries(groups)] if groups else devices.config
    return replace(
        allocation,
        devices=replace(
            devices,
            results=[replace(result, compatibility_groups={}) for result in devices.results],
            config=config if len(config) <= _MAX_ENTRIES else devices.config,
        ),
    )


def _entries(groups: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[AllocationConfig]:
    # Sorted keys, no spaces: with any other bytes, other clients could not write the claim's allocation.
    parameters = msgspec.json.encode({"groups": groups, "kind": _KIND}, order="sorted")
    if len(parameters) > _MAX_BYTES and len(groups) > 1:
        keys = list(groups)
        for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            yield from _entries({key: groups[key] for key in half})
        return
    yield AllocationConfig(source="FromClass", opaque=OpaqueConfig(SNAPSHOT_DRIVER, msgspec.Raw(parameters)))


def groups_in_force(allocation: Allocation) -> Sequence[GroupsBySet | None]:
    """Return the recorded groups of each result; empty for a result without groups.

    Without a record, each item is None. An entry that can't be read does not count as a record.
    """
    results, entries = allocation.devices.results, _recorded(allocation.devices.config)
    if entries is None and not has_groups(allocation):
        return [None] * len(results)
    return [_of_result(result) or (entries or {}).get(str(index), {}) for index, result in enumerate(results)]


def _of_result(result: DeviceResult) -> GroupsBySet:
    return {name: tuple(groups) for name, groups in result.compatibility_groups.items()}


def _recorded(config: Sequence[AllocationConfig]) -> GroupsByDevice | None:
    """Return the content of the entries, by position in `results`; None if there is no entry."""
    found: dict[str, GroupsBySet] | None = None
    for entry in config:
        if entry.source != "FromClass" or entry.opaque is None or entry.opaque.driver != SNAPSHOT_DRIVER:
            continue
        try:
            parameters = _READER.decode(entry.opaque.parameters)
        except msgspec.MsgspecError:
            continue
        if parameters.kind == _KIND and all(index.isdecimal() for index in parameters.groups):
            found = found or {}
            for index, groups in parameters.groups.items():
                found[index] = {name: tuple(each) for name, each in groups.items()}
    return found
