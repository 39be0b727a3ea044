"""The accelerators of this node, in sysfs."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.accelerator.hardware import Accelerators, AttachedAccelerator, CharacterDevice

__all__ = ["SysfsAccelerators"]

_FIRST_CAPABILITY: Final = 0x100
"""Offset of the extended capabilities in the configuration space of a PCI Express device."""
_MAX_CAPABILITIES: Final = (4096 - _FIRST_CAPABILITY) // 8
_SERIAL_NUMBER: Final = 0x0003
_NO_HEADER: Final = {0, 0xFFFF_FFFF}
"""Header of a device without extended capabilities, and of a device that does not answer."""
_BRIDGE: Final = "0x06"


class SysfsAccelerators(Accelerators):
    """The PCI devices of this node. See `Accelerators`.

    Only root can read the serial numbers. Other users see no device.

    Args:
        sysfs: mount point of sysfs.
    """

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        self._folder = sysfs / "bus" / "pci" / "devices"

    def devices(self) -> tuple[AttachedAccelerator, ...]:
        """See `Accelerators`.

        Function 0 has the serial number of a device with several functions.

        Source: PCI Express Base Specification, Device Serial Number Extended Capability.
        """
        found = []
        for device in self._folder.glob("*.0"):
            if _read(device / "class").startswith(_BRIDGE):
                continue
            serial = _read_serial(device / "config")
            if serial is not None:
                functions = sorted(self._folder.glob(f"{device.stem}.*"))
                nodes = {node.path: node for function in functions for node in _find_nodes(function)}
                found.append(
                    AttachedAccelerator(serial, device.name, tuple(nodes[path] for path in sorted(nodes)))
                )
        return tuple(sorted(found, key=lambda each: (each.serial, each.address)))


def _read(path: Path) -> str:
    """Return a file's text; "" if it cannot be read: the device may be pulled at any moment."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _read_serial(config: Path) -> int | None:
    """Return the serial number in a configuration space; None if it has none, or cannot be read."""
    try:
        with config.open("rb", buffering=0) as file:  # each byte is read from the device
            return _find_serial(file.fileno())
    except OSError:
        return None


def _find_serial(config: int) -> int | None:
    offset = _FIRST_CAPABILITY
    for _ in range(_MAX_CAPABILITIES):
        header = int.from_bytes(os.pread(config, 4, offset), "little")
        if header in _NO_HEADER:
            return None
        if header & 0xFFFF == _SERIAL_NUMBER:
            serial = os.pread(config, 8, offset + 4)
            return int.from_bytes(serial, "little") if len(serial) == 8 else None
        offset = header >> 20
        if offset < _FIRST_CAPABILITY:
            return None
    return None


def _find_nodes(function: Path) -> Iterator[CharacterDevice]:
    """Yield the character devices of a PCI function: those of its class devices, as `drm/renderD128`.

    Devices further below are left out: they are monitors and buses on the card, not the accelerator.
    """
    with suppress(OSError):
        for number in sorted(function.glob("*/*/dev")):
            device = number.parent
            if (device / "subsystem").resolve().name == "block":
                continue
            name = re.search(r"^DEVNAME=(.+)$", _read(device / "uevent"), re.MULTILINE)
            major, _, minor = _read(number).partition(":")
            if name and major.isdecimal() and minor.isdecimal():
                yield CharacterDevice(f"/dev/{name[1].removeprefix('/dev/')}", int(major), int(minor))
