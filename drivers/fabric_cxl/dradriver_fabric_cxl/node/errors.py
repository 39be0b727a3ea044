"""Errors of the node's half, and the reasons of all errors in a claim's status."""

from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.memory import (
    CxlMemoryError,
    MemoryDeviceNotFoundError,
    MemoryInUseError,
    NoAddressSpaceError,
    NodeUnsupportedError,
)
from dradriver_fabric_cxl.names import NOT_READY

__all__ = [
    "AcceleratorNotFoundError",
    "NoAttachedDataError",
    "SerialInUseError",
    "SystemRamNotAllowedError",
    "to_attach_error",
]


class NoAttachedDataError(dra.DraError):
    """The claim's status has no valid data of the pool driver, so the serial number is unknown."""


class SystemRamNotAllowedError(dra.DraError):
    """The node's settings do not allow the use of memory as system RAM."""


class AcceleratorNotFoundError(dra.DraError):
    """The accelerator did not appear on the node, or has no driver."""


class SerialInUseError(dra.DraError):
    """Another claim has a device with this serial number."""


_REASONS: Final[dict[type, tuple[str, bool]]] = {
    AcceleratorNotFoundError: ("AcceleratorNotFound", True),
    CxlMemoryError: ("MemoryFailed", True),
    MemoryDeviceNotFoundError: ("MemoryNotFound", True),
    MemoryInUseError: ("MemoryInUse", False),
    NoAddressSpaceError: ("NoAddressSpace", False),
    NoAttachedDataError: ("NoData", False),
    NodeUnsupportedError: ("NodeUnsupported", False),
    SerialInUseError: ("SerialInUse", False),
    SystemRamNotAllowedError: ("SystemRamNotAllowed", False),
}
"""For each class of errors, the reason, and whether the device is bad. The nearest base class counts."""


def to_attach_error(error: dra.DraError) -> dra.AttachError:
    """Return the failure as an error that the SDK expects.

    Only a failure of the device itself taints it. If the claim or the node is at fault, for example because the
    disk is full, other claims can get the device.

    Args:
        error: an error of the memory, an accelerator or the disk.
    """
    for kind in type(error).__mro__:
        if kind in _REASONS:
            reason, is_bad = _REASONS[kind]
            return dra.AttachError(str(error), reason=reason, condition=NOT_READY, device_is_bad=is_bad)
    return dra.AttachError(str(error), reason="NodeFailed", condition=NOT_READY, device_is_bad=False)
