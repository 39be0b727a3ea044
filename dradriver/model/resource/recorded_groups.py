"""Records in a claim the compatibility groups of its allocated devices (KEP-5963).

A driver may change the groups of a device that is in use. But the groups at the time of the allocation decide
which other devices can be allocated later. So the allocation records the groups: if a device declares groups,
the field `compatibilityGroups` of the device's result contains them by counter set. A record covers all devices
of the claim: a device that is not in the record had no groups. If a claim has no record, the groups are read
from the slices.

Kubernetes 1.37 drops `compatibilityGroups`. For an API server that drops this field, the record is stored in
`status.allocation.devices.config`, as opaque parameters for a driver name that only this package uses. The API
server stores the bytes of these parameters and lets no client change them. Drivers ignore them, because they
contain another driver name. `source: FromClass` distinguishes the record from configuration that a user writes
into a claim.

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
    "record_groups_in_config",
]

SNAPSHOT_DRIVER: Final = "allocator.dradriver.dev"
"""The driver name in the record. No driver has this name."""

GroupsBySet: TypeAlias = Mapping[str, tuple[str, ...]]
"""The compatibility groups by counter set."""

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
    return {
        consumption.counter_set: tuple(consumption.compatibility_groups)
        for consumption in device.consumes_counters
    }


def has_groups(allocation: Allocation) -> bool:
    """Return whether a result has compatibility groups."""
    return any(result.compatibility_groups for result in allocation.devices.results)


def record_groups_in_config(allocation: Allocation) -> Allocation:
    """Return the allocation with its record moved to entries of `config`.

    This form is for an API server that drops `compatibilityGroups`. If the entries do not fit (at most 64),
    nothing is recorded. The groups are then read from the slices, as in Kubernetes.
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
    # The keys must be sorted, and there must be no spaces. With other bytes, other clients could not write the
    # claim's allocation.
    parameters = msgspec.json.encode({"groups": groups, "kind": _KIND}, order="sorted")
    if len(parameters) > _MAX_BYTES and len(groups) > 1:
        keys = list(groups)
        for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            yield from _entries({key: groups[key] for key in half})
        return
    yield AllocationConfig(source="FromClass", opaque=OpaqueConfig(SNAPSHOT_DRIVER, msgspec.Raw(parameters)))


def groups_in_force(allocation: Allocation) -> Sequence[GroupsBySet | None]:
    """Return the recorded groups of each result. For a result without groups the item is empty.

    If there is no record, each item is None. An entry of `config` that can't be read is ignored.
    """
    results, config = allocation.devices.results, allocation.devices.config
    entries = _read_entries(config) if config else None
    if entries is None and not has_groups(allocation):
        return [None] * len(results)
    return [
        _result_groups(result) or (entries or {}).get(str(index), {}) for index, result in enumerate(results)
    ]


def _result_groups(result: DeviceResult) -> GroupsBySet:
    return {name: tuple(groups) for name, groups in result.compatibility_groups.items()}


def _read_entries(config: Sequence[AllocationConfig]) -> GroupsByDevice | None:
    """Return the groups in the entries, by position in `results`; None if there is no entry."""
    groups_by_index: dict[str, GroupsBySet] | None = None
    for entry in config:
        if entry.source != "FromClass" or entry.opaque is None or entry.opaque.driver != SNAPSHOT_DRIVER:
            continue
        try:
            parameters = _READER.decode(entry.opaque.parameters)
        except msgspec.MsgspecError:
            continue
        if parameters.kind == _KIND and all(index.isdecimal() for index in parameters.groups):
            groups_by_index = groups_by_index or {}
            for index, groups in parameters.groups.items():
                groups_by_index[index] = {name: tuple(each) for name, each in groups.items()}
    return groups_by_index
