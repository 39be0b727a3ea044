"""Asks a memory device for its health through its mailbox (`/dev/cxl/memN`)."""

import ctypes
import fcntl
import os
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.values import MemoryHealth

__all__ = ["ask_health", "parse_health"]

_GET_HEALTH_INFO: Final = 7
"""`CXL_MEM_COMMAND_ID_GET_HEALTH_INFO`."""
_HEALTH_BYTES: Final = 18

_MAINTENANCE_OR_PERFORMANCE: Final = 0b011
_REPLACEMENT: Final = 0b100
_MEDIA_NOT_READY: Final = 1
_MEDIA_DATA: Final = {3, 7, 8, 9}
"""All data lost, or data will be lost. The other states concern persistence alone."""


class _Payload(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("payload", ctypes.c_uint64))


class _SendCommand(ctypes.Structure):
    """`struct cxl_send_command`.

    Source: include/uapi/linux/cxl_mem.h.
    """

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("raw", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("input", _Payload),
        ("output", _Payload),
    )


_SEND_COMMAND: Final = 3 << 30 | ctypes.sizeof(_SendCommand) << 16 | 0xCE << 8 | 2
"""`CXL_MEM_SEND_COMMAND`: `_IOWR(0xCE, 2, struct cxl_send_command)`."""


def ask_health(device: Path) -> MemoryHealth:
    """Return the health that a device reports; OK if it does not answer the command, which is optional.

    Args:
        device: the device's file.
    """
    answer = ctypes.create_string_buffer(_HEALTH_BYTES)
    command = _SendCommand(id=_GET_HEALTH_INFO, output=_Payload(_HEALTH_BYTES, 0, ctypes.addressof(answer)))
    try:
        file = os.open(device, os.O_RDWR)
        try:
            fcntl.ioctl(file, _SEND_COMMAND, command)
        finally:
            os.close(file)
    except OSError:
        return MemoryHealth.OK
    return MemoryHealth.OK if command.retval else parse_health(answer.raw)


def parse_health(answer: bytes) -> MemoryHealth:
    """Return the health that the answer to Get Health Info contains.

    Args:
        answer: output payload: health status, media status, and 16 bytes more.

    Source: CXL 3.0, 8.2.9.8.3.1.
    """
    health, media = answer[0], answer[1]
    if health & _REPLACEMENT or media == _MEDIA_NOT_READY:
        return MemoryHealth.FAILED
    if health & _MAINTENANCE_OR_PERFORMANCE or media in _MEDIA_DATA:
        return MemoryHealth.DEGRADED
    return MemoryHealth.OK
