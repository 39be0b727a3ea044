"""Where a node's files and programs are, as this process sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver_fpga.card.values import CardKind

__all__ = ["Host"]

_GIB: Final = 1 << 30


def _shell_tools() -> Mapping[CardKind, tuple[str, ...]]:
    return {CardKind.XRT: ("xbmgmt", "program", "--device", "{card}", "--shell", "{file}")}


@dataclass(frozen=True, slots=True)
class Host:
    """A node.

    Attributes:
        records: a file of this driver's own, which outlives its process: what was programmed by it.
        sysfs, dev: where they are mounted.
        boot_id: a file that has other content after each boot.
        udev_control: the socket of udevd; where it is, udevd tells of devices when it is done with them.
        firmware: a folder where the kernel looks for firmware files, to be written to.
        region_tool: the vendor's program that writes a region; `{card}` is the PCI address of the user
            function, `{file}` the bitstream. It is used where it is installed.
        shell_tools: the one that writes a shell to each kind of cards; `{card}` is the PCI address of the
            management function, where there is one. It returns when the shell runs.
        largest: bytes of the largest bitstream.
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
