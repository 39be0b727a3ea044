"""Each failure on the node has a reason, and only failures of the device itself taint the device."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

import dradriver as dra
from dradriver_fabric_cxl.memory import CxlMemoryError
from dradriver_fabric_cxl.memory.sysfs.files import AttributeWriteError
from dradriver_fabric_cxl.names import NOT_READY
from dradriver_fabric_cxl.node.errors import to_attach_error

REASONS = {
    "CxlMemoryError": ("MemoryFailed", True),
    "AttributeWriteError": ("MemoryFailed", True),
    "MemoryDeviceNotFoundError": ("MemoryNotFound", True),
    "NodeUnsupportedError": ("NodeUnsupported", False),
    "NoAddressSpaceError": ("NoAddressSpace", False),
    "MemoryInUseError": ("MemoryInUse", False),
}


def with_subclasses(kind: type[CxlMemoryError]) -> Iterator[type[CxlMemoryError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from with_subclasses(each)


def make_error(kind: type[CxlMemoryError]) -> CxlMemoryError:
    if issubclass(kind, AttributeWriteError):
        return kind(Path("/sys/commit"), "1", OSError(errno.EIO, "I/O error"))
    return kind("broken")


@pytest.mark.parametrize("kind", list(with_subclasses(CxlMemoryError)), ids=lambda kind: kind.__name__)
def test_every_failure_of_the_memory_has_its_reason(kind: type[CxlMemoryError]) -> None:
    found = to_attach_error(make_error(kind))
    assert (found.reason, found.device_is_bad) == REASONS[kind.__name__]
    assert found.condition == NOT_READY


def test_a_failure_of_the_disk_is_none_of_the_device() -> None:
    found = to_attach_error(dra.DraError("the disk is full"))
    assert (found.reason, found.device_is_bad) == ("NodeFailed", False)
