"""Paths of a node's files and programs, as this process sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from dradriver_fpga.card.values import CardKind

__all__ = ["Command", "FpgaHost"]

Command: TypeAlias = tuple[str, ...]
"""A program and its arguments, with the placeholders `{card}` and `{file}`."""

_GIB: Final = 1 << 30

_REGION_TOOLS: Final[tuple[Command, ...]] = tuple(
    (tool, "program", "--device", "{card}", "--user", "{file}") for tool in ("xrt-smi", "xbutil")
)
"""XRT's program for users: `xrt-smi` since 2024.2, `xbutil` before. Both have the same arguments.

Source:
    https://xilinx.github.io/XRT/2025.2/html/xrt-smi.html
"""

_MANAGER_TOOLS: Final[tuple[Command, ...]] = (("dfx-mgr-client", "-b", "{file}", "-f", "Full"),)
"""AMD's DFX-MGR for embedded FPGAs. Its daemon writes the bitstream.

Source:
    https://github.com/Xilinx/dfx-mgr, README.md, "Lightweight use cases".
"""


def _shell_tools() -> Mapping[CardKind, Command]:
    return {CardKind.XRT: ("xbmgmt", "program", "--device", "{card}", "--shell", "{file}")}


@dataclass(frozen=True, slots=True)
class FpgaHost:
    """The paths and programs of a node.

    Attributes:
        records: file in which this driver records the bitstreams that it has written. It outlives the process.
        sysfs, dev: mount points.
        boot_id: file whose content changes at each boot.
        udev_control: socket of udevd. If it exists, uevents come from udevd after it has processed them.
        overlays: folder of device tree overlays in configfs. Only kernels of vendors have it.
        firmware: folder in which the kernel looks for firmware files. This driver writes to it.
        region_tools: the vendor's programs that write a region. The first one that is installed is used.
            `{card}` is the PCI address of the user function, and `{file}` the bitstream.
        shell_tools: by kind of card, the program that writes a shell. `{card}` is the PCI address of the
            management function, if the card has one. The program must return only when the shell runs.
        manager_tools: programs that write a whole FPGA whose manager takes no files. The first one that is
            installed is used.
        largest: maximum size of a bitstream in bytes.
    """

    records: Path
    sysfs: Path = Path("/sys")
    dev: Path = Path("/dev")
    boot_id: Path = Path("/proc/sys/kernel/random/boot_id")
    udev_control: Path = Path("/run/udev/control")
    overlays: Path = Path("/sys/kernel/config/device-tree/overlays")
    firmware: Path = Path("/lib/firmware")
    region_tools: tuple[Command, ...] = _REGION_TOOLS
    shell_tools: Mapping[CardKind, Command] = field(default_factory=_shell_tools)
    manager_tools: tuple[Command, ...] = _MANAGER_TOOLS
    largest: int = _GIB

    @property
    def private(self) -> Path:
        """The folder of locks and of verified copies of bitstreams. Only this driver uses it."""
        return self.records.parent / "programming"
