"""Data of attached devices, from the process that attaches them for the node's driver. Pure.

If the scheduler has allocated a device, its data is in the claim's status. If the controller has allocated it,
the data of all devices of a claim is in the handle of the allocation (KEP-3063).
"""

from collections.abc import Mapping
from typing import Self

import msgspec

__all__ = ["AttachedDevice", "decode_handle", "encode_handle"]


class AttachedDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the fabric has attached for one allocation (`status.devices[].data`, or an entry of a handle).

    Attributes:
        serial: serial number of the device that the host finds, in hexadecimal with `0x`. It is text, because
            JSON numbers of 64 bits lose digits.
        bytes: size of the memory; 0 for an accelerator.
    """

    serial: str
    bytes: int = 0

    @classmethod
    def of(cls, serial: int, size: int = 0) -> Self:
        """Return the data for a device.

        Args:
            serial: serial number.
            size: bytes of memory; 0 for an accelerator.
        """
        return cls(serial=f"0x{serial:x}", bytes=size)

    @classmethod
    def parse(cls, data: Mapping[str, object]) -> Self:
        """Return the data that the pool driver has stored.

        Args:
            data: `AllocatedDevice.data`.

        Raises:
            ValueError: the data is missing or malformed. The text names the field.
        """
        parsed = msgspec.convert(data, cls)
        int(parsed.serial, 16)
        return parsed

    @property
    def serial_number(self) -> int:
        """The serial number as a number."""
        return int(self.serial, 16)

    def to_data(self) -> dict[str, object]:
        """Return the data as `ClaimConditions.set_data` takes it."""
        data: dict[str, object] = msgspec.to_builtins(self)
        return data


def encode_handle(devices: Mapping[str, AttachedDevice]) -> bytes:
    """Return the handle of an allocation.

    Args:
        devices: the attached devices by name.
    """
    return msgspec.json.encode(devices, order="sorted")


def decode_handle(handle: bytes, device: str) -> AttachedDevice:
    """Return a device of the handle of an allocation.

    Args:
        handle: `AllocatedDevice.handle`.
        device: name of the device.

    Raises:
        ValueError: the handle is malformed, or it does not have the device.
    """
    devices = msgspec.json.decode(handle, type=dict[str, AttachedDevice])
    if device not in devices:
        raise ValueError(f"the handle has no device {device}")
    int(devices[device].serial, 16)
    return devices[device]
