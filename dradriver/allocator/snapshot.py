"""The compatibility groups in force for an allocated device, kept in its claim (KEP-5963).

A driver may change the groups of a device that is in use. What counts for those who come later are the groups
at the time of the allocation, so they are recorded beside it. The KEP's own field, `compatibilityGroups` of a
result, is dropped by Kubernetes 1.37; so they stand in `status.allocation.devices.config`, in opaque
parameters under this package's name: the API server keeps these bytes, nobody may change them, and a driver
sees no configuration of its own in them. `source: FromClass` tells them from what a user writes into a claim.

    source: FromClass
    opaque:
      driver: allocator.dradriver.dev
      parameters: {"groups": {"0": {"gpu-0-counters": ["mig"]}}, "kind": "CompatibilityGroups"}

The keys are positions in `results`. Recorded are the results that consume counters, those without groups too:
a device that had none when it was allocated goes only with others that have none, whatever its slice says now.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from dradriver.model.claim import Allocation, AllocationConfig, OpaqueConfig
from dradriver.model.device import Device

__all__ = [
    "SNAPSHOT_DRIVER",
    "GroupsByDevice",
    "GroupsBySet",
    "declared_groups",
    "groups_in_force",
    "snapshot_of",
]

SNAPSHOT_DRIVER: Final = "allocator.dradriver.dev"
"""The name under which the groups stand; no driver has it."""

GroupsBySet: TypeAlias = Mapping[str, tuple[str, ...]]
"""Counter set to compatibility groups."""

GroupsByDevice: TypeAlias = Mapping[str, GroupsBySet]

_KIND: Final = "CompatibilityGroups"
_MAX_BYTES: Final = 10_240
_MAX_ENTRIES: Final = 64


class _Parameters(msgspec.Struct):
    kind: str
    groups: dict[str, dict[str, list[str]]] = {}


_READER: Final = msgspec.json.Decoder(_Parameters)


def declared_groups(device: Device) -> GroupsBySet:
    """The groups that a device declares for the counter sets that it consumes from."""
    return {taken.counter_set: tuple(taken.compatibility_groups) for taken in device.consumes_counters}


def snapshot_of(devices: Sequence[GroupsBySet], other_entries: int) -> list[AllocationConfig]:
    """The entries of `config` that record the groups of devices; none when none consumes counters.

    Args:
        devices: the groups of each, in the order of the results.
        other_entries: how many entries there are already. Where a claim has no room for more (64), nothing is
            recorded, and the groups are read from the slices as Kubernetes does.
    """
    groups = {str(index): by_set for index, by_set in enumerate(devices) if by_set}
    entries = list(_entries(groups)) if groups else []
    return entries if other_entries + len(entries) <= _MAX_ENTRIES else []


def _entries(groups: Mapping[str, GroupsBySet]) -> Iterator[AllocationConfig]:
    # Sorted keys, no spaces: bytes in any other form would make the claim's allocation unwritable for others.
    parameters = msgspec.json.encode({"groups": groups, "kind": _KIND}, order="sorted")
    if len(parameters) > _MAX_BYTES and len(groups) > 1:
        keys = list(groups)
        for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            yield from _entries({key: groups[key] for key in half})
        return
    yield AllocationConfig(source="FromClass", opaque=OpaqueConfig(SNAPSHOT_DRIVER, msgspec.Raw(parameters)))


def groups_in_force(allocation: Allocation) -> Mapping[int, GroupsBySet]:
    """The recorded groups by position in `results`; what can't be read counts as not recorded."""
    found: dict[int, GroupsBySet] = {}
    for entry in allocation.devices.config:
        if entry.source != "FromClass" or entry.opaque is None or entry.opaque.driver != SNAPSHOT_DRIVER:
            continue
        try:
            parameters = _READER.decode(entry.opaque.parameters)
        except msgspec.MsgspecError:
            continue
        if parameters.kind == _KIND:
            for index, groups in parameters.groups.items():
                if index.isdecimal() and len(index) <= len(str(_MAX_ENTRIES)):
                    found[int(index)] = {name: tuple(each) for name, each in groups.items()}
    return found
