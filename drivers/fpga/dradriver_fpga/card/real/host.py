"""Paths of a node's files and programs, as this process sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver_fpga.card.values import CardKind

__all__ = ["FpgaHost"]

_GIB: Final = 1 << 30


def _shell_tools() -> Mapping[CardKind, tuple[str, ...]]:
    return {CardKind.XRT: ("xbmgmt", "program", "--device", "{card}", "--shell", "{file}")}


@dataclass(frozen=True, slots=True)
class FpgaHost:
    """The paths and programs of a node.

    Attributes:
        records: file in which this driver records the bitstreams that it has written. It outlives the process.
        sysfs, dev: mount points.
        boot_id: file whose content changes at each boot.
        udev_control: socket of udevd. If it exists, uevents come from udevd after it has processed them.
        firmware: folder in which the kernel looks for firmware files. This driver writes to it.
        region_tool: the vendor's program that writes a region. `{card}` is the PCI address of the user
            function, and `{file}` the bitstream. The program is used if it is installed.
        shell_tools: by kind of card, the program that writes a shell. `{card}` is the PCI address of the
            management function, if the card has one. The program must return only when the shell runs.
        largest: maximum size of a bitstream in bytes.
    """

    records: Path
    sysfs: Path = Path("/sys")
    dev: Path = Path("/dev")
    boot_id: Path = Path("/proc/sys/kernel/random/boot_id")
    udev_control: Path = Path("/run/udev/control")
    firmware: Path = Path("/lib/firmware")
    region_tool: tuple[str, ...] = ("xbutil", "program", "--device", "{card}", "--user", "{file}")
    shell_tools: Mapping[CardKind, tuple[str, ...]] = field(default_factory=_shell_tools)
    largest: int = _GIB
