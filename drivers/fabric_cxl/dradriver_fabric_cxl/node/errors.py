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


_REASONS_OF_THE_DEVICE: Final[dict[type[dra.DraError], str]] = {
    AcceleratorNotFoundError: "AcceleratorNotFound",
    CxlMemoryError: "MemoryFailed",
    MemoryDeviceNotFoundError: "MemoryNotFound",
}
_OTHER_REASONS: Final[dict[type[dra.DraError], str]] = {
    MemoryInUseError: "MemoryInUse",
    NoAddressSpaceError: "NoAddressSpace",
    NoAttachedDataError: "NoData",
    NodeUnsupportedError: "NodeUnsupported",
    SerialInUseError: "SerialInUse",
    SystemRamNotAllowedError: "SystemRamNotAllowed",
}


def to_attach_error(error: dra.DraError) -> dra.AttachError:
    """Return the failure as an error that the SDK expects.

    Only a failure of the device itself taints it. If the claim or the node is at fault, for example because the
    disk is full, other claims can get the device.

    Args:
        error: an error of the memory, an accelerator or the disk.
    """
    reason = _REASONS_OF_THE_DEVICE.get(type(error))
    return dra.AttachError(
        str(error),
        reason=reason or _OTHER_REASONS.get(type(error), "NodeFailed"),
        condition=NOT_READY,
        device_is_bad=reason is not None,
    )
