"""Problems of the devices that claims have on this node. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import TypeAlias

import dradriver as dra
from dradriver_fabric_cxl.accelerator import AttachedAccelerator
from dradriver_fabric_cxl.memory import MemoryDevice, MemoryHealth
from dradriver_fabric_cxl.node.records import DeviceRecord, RecordState

__all__ = ["DeviceProblems", "find_problems", "list_unhealthy", "to_health"]

DeviceProblems: TypeAlias = Mapping[tuple[str, str], str]
"""Why a device does not work, for people, by pool and device; "" if it works."""


def find_problems(
    records: Collection[DeviceRecord],
    memory: Collection[MemoryDevice],
    accelerators: Collection[AttachedAccelerator],
) -> DeviceProblems:
    """Return the problems of all devices that claims have. Several shares of a device count as one.

    Args:
        records: the records of this boot.
        memory: the memory that is plugged in.
        accelerators: the accelerators that are plugged in.
    """
    memory_by_serial = {each.serial: each for each in memory}
    accelerators_by_serial = {each.serial: each for each in accelerators}
    problems: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        if record.state is RecordState.TAKING_BACK:
            continue
        found = problems[record.pool, record.device]
        if record.mode is None:
            found.extend(_check_accelerator(record, accelerators_by_serial.get(record.serial)))
        else:
            found.extend(_check_memory(record, memory_by_serial.get(record.serial)))
    return {device: "; ".join(found) for device, found in sorted(problems.items())}


def to_health(problems: DeviceProblems, reported: Set[tuple[str, str]]) -> Sequence[dra.DeviceHealth]:
    """Return the problems as the kubelet gets them.

    Args:
        problems: the devices that claims have.
        reported: pool and name of the devices that were reported before.
    """
    present = [
        dra.DeviceHealth(device, dra.Health.UNHEALTHY if text else dra.Health.HEALTHY, text, pool)
        for (pool, device), text in problems.items()
    ]
    released = [
        dra.DeviceHealth(device, dra.Health.UNKNOWN, "no claim has the device on this node", pool)
        for pool, device in sorted(reported - problems.keys())
    ]
    return present + released


def list_unhealthy(problems: DeviceProblems) -> Mapping[str, str]:
    """Return the problems as the pool driver gets them: by the name of the device."""
    return {device: text for (_, device), text in problems.items() if text}


def _check_memory(record: DeviceRecord, found: MemoryDevice | None) -> Iterator[str]:
    name = f"memory {record.serial:#x}"
    if found is None:
        yield f"{name} is not plugged in any more"
        return
    if found.health is not MemoryHealth.OK:
        yield f"{name} ({found.name}) reports the state {found.health.value}"
    if record.state is RecordState.USABLE and (found.usable is None or found.usable.mode is not record.mode):
        yield f"{name} ({found.name}) is not usable any more: another program removed or changed its region"


def _check_accelerator(record: DeviceRecord, found: AttachedAccelerator | None) -> Iterator[str]:
    if found is None:
        yield f"accelerator {record.serial:#x} is not plugged in any more"
    elif found.problem:
        yield found.problem
