"""Reads devices in sysfs, which can disappear at any time. Functions return empty text for a missing file."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver_fpga.card.values import CardNode

__all__ = ["SysfsDevice", "find_pci_address", "list_devices", "list_matches", "parse_number", "read"]

_BUS_ID: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def read(path: Path) -> str:
    """Return a file's text without surrounding spaces; "" if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def list_matches(folder: Path, pattern: str) -> list[Path]:
    """Return the sorted paths below a folder that match a pattern; empty if the folder no longer exists."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def parse_number(name: str) -> int:
    """Return the number at the end of a name: 12 for `dfl-port.12`, 3 for `region3`; -1 without a number."""
    match = re.search(r"\d+$", name)
    return int(match[0]) if match else -1


def find_pci_address(path: Path) -> str:
    """Return the address of the nearest PCI device above a device; "" if no PCI device is above it."""
    return next((part for part in reversed(path.parts) if _BUS_ID.fullmatch(part)), "")


@dataclass(frozen=True, slots=True)
class SysfsDevice:
    """A device, identified by its folder below /sys/devices."""

    path: Path

    @property
    def name(self) -> str:
        """The kernel's name: `fpga0`, `dfl-port.0`."""
        return self.path.name

    @property
    def owner(self) -> Path:
        """The device to which a class device belongs: .../f8007000.devcfg for .../fpga_manager/fpga0."""
        parent = self.path.parent
        return parent.parent if (self.path / "subsystem").resolve().name == parent.name else parent

    def attribute(self, name: str) -> str:
        """Return the text of an attribute; "" if it does not exist."""
        return read(self.path / name)

    def node(self) -> tuple[CardNode, ...]:
        """Return the device's file in /dev; empty if it has no file there."""
        names = re.findall(r"^DEVNAME=(.+)$", self.attribute("uevent"), re.MULTILINE)
        major, _, minor = self.attribute("dev").partition(":")
        if not names or not (major.isdecimal() and minor.isdecimal()):
            return ()
        return (CardNode(f"/dev/{names[0].removeprefix('/dev/')}", int(major), int(minor)),)


def list_devices(
    sysfs: Path, subsystem: str, accepts: Callable[[Path], bool] = Path.is_symlink
) -> list[SysfsDevice]:
    """Return the devices of a bus or a class, ordered by number.

    Args:
        sysfs: mount point of sysfs.
        subsystem: the bus or the class.
        accepts: returns whether to follow a device's link. A node may have hundreds of devices, and following
            links is the most expensive part.
    """
    folders: dict[Path, None] = {}
    for folder in (sysfs / "bus" / subsystem / "devices", sysfs / "class" / subsystem):
        try:
            links = [link for link in folder.iterdir() if accepts(link)]
        except OSError:
            continue
        folders.update(dict.fromkeys(link.resolve() for link in links))
    return sorted(map(SysfsDevice, folders), key=lambda each: (parse_number(each.name), each.name))
