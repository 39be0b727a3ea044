"""Devices of sysfs that come and go while they are read: what is not there any more reads as nothing."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver_fpga.card.values import CardNode

__all__ = ["SysfsDevice", "matches", "members", "number_of", "pci_address", "read"]

_BUS_ID: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def read(path: Path) -> str:
    """A file's text without the spaces around it; "" when it can't be read (any more)."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def matches(folder: Path, pattern: str) -> list[Path]:
    """The paths below a folder that match, in their order; none when it is gone."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def number_of(name: str) -> int:
    """The number that a name ends in: 12 of `dfl-port.12`, 3 of `region3`; -1 without one."""
    found = re.search(r"\d+$", name)
    return int(found[0]) if found else -1


def pci_address(path: Path) -> str:
    """The address of the nearest PCI device on the way to a device; "" without one."""
    return next((part for part in reversed(path.parts) if _BUS_ID.fullmatch(part)), "")


@dataclass(frozen=True, slots=True)
class SysfsDevice:
    """A device by its folder below /sys/devices."""

    path: Path

    @property
    def name(self) -> str:
        """The kernel's name: `fpga0`, `dfl-port.0`."""
        return self.path.name

    @property
    def owner(self) -> Path:
        """Of a device of a class, the one that it belongs to: .../f8007000.devcfg of .../fpga_manager/fpga0."""
        parent = self.path.parent
        return parent.parent if (self.path / "subsystem").resolve().name == parent.name else parent

    def attribute(self, name: str) -> str:
        """The text of an attribute; "" when it has none of that name."""
        return read(self.path / name)

    def node(self) -> tuple[CardNode, ...]:
        """Its file in /dev, where it has one."""
        names = re.findall(r"^DEVNAME=(.+)$", self.attribute("uevent"), re.MULTILINE)
        major, _, minor = self.attribute("dev").partition(":")
        if not names or not (major.isdecimal() and minor.isdecimal()):
            return ()
        return (CardNode(f"/dev/{names[0].removeprefix('/dev/')}", int(major), int(minor)),)


def members(sysfs: Path, subsystem: str, keep: Callable[[Path], bool] = Path.is_symlink) -> list[SysfsDevice]:
    """The devices of a bus or a class, by their numbers.

    Args:
        sysfs: where it is mounted.
        subsystem: the bus or the class.
        keep: which to take, by their links: a node may have hundreds, and following a link costs the most.
    """
    found: dict[Path, None] = {}
    for folder in (sysfs / "bus" / subsystem / "devices", sysfs / "class" / subsystem):
        try:
            links = [link for link in folder.iterdir() if keep(link)]
        except OSError:
            continue
        found.update(dict.fromkeys(link.resolve() for link in links))
    return sorted(map(SysfsDevice, found), key=lambda each: (number_of(each.name), each.name))
