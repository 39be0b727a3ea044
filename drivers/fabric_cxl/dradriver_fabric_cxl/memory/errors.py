"""Errors of a node's CXL memory: one class for each error that callers distinguish."""

import dradriver as dra

__all__ = [
    "CxlMemoryError",
    "MemoryDeviceNotFoundError",
    "MemoryInUseError",
    "NoAddressSpaceError",
    "NodeUnsupportedError",
]


class CxlMemoryError(dra.DraError):
    """The kernel rejected an operation, or a device failed. This class itself covers every other failure."""


class MemoryDeviceNotFoundError(CxlMemoryError):
    """No device with this serial number is plugged in."""


class NodeUnsupportedError(CxlMemoryError):
    """The node can use no CXL memory: it has no CXL root, no window, or the kernel refuses regions."""


class NoAddressSpaceError(CxlMemoryError):
    """The node's CXL windows have no room for the memory. The device is not bad."""


class MemoryInUseError(CxlMemoryError):
    """The memory is in use, so it cannot be taken back or cleared. The call can be tried again."""
