"""The kernel's side of loop devices: /sys/block, /dev and /dev/loop-control."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOP_CTL_ADD: Final = 0x4C80
"""ioctl of /dev/loop-control that makes the loop device of a given index (`linux/loop.h`)."""
HIGHEST: Final = 256
"""Where making more ends, whatever is in use."""
SECTOR: Final = 512
"""Bytes in a unit of /sys/block/*/size, whatever the device's own block size."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop device of the machine.

    Attributes:
        index: its number.
        path: its device node.
        backed: whether a file is behind it now.
        size: bytes; 0 while no file is behind it.
    """

    index: int
    path: str
    backed: bool
    size: int


def find_loops(sys_block: Path = Path("/sys/block"), dev: Path = Path("/dev")) -> Iterator[Loop]:
    """The loop devices that have a device node, in the order of their numbers."""
    numbers = (name.name.removeprefix("loop") for name in sys_block.glob("loop*"))
    for index in sorted(int(number) for number in numbers if number.isdigit()):
        entry, node = sys_block / f"loop{index}", dev / f"loop{index}"
        # It may go away at any moment: one that can't be read is one that isn't there.
        with suppress(OSError, ValueError):
            if stat.S_ISBLK(node.stat().st_mode):
                sectors = int((entry / "size").read_text())
                yield Loop(index, str(node), (entry / "loop").exists(), sectors * SECTOR)


def make_loops(*, free: int, sys_block: Path = Path("/sys/block"), dev: Path = Path("/dev")) -> None:
    """Makes loop devices until so many have no file behind them, as far as the kernel and our rights allow."""
    index = found = 0
    while found < free and index < HIGHEST:
        entry, node = sys_block / f"loop{index}", dev / f"loop{index}"
        with suppress(OSError, ValueError):
            if not entry.exists():
                _add(dev / "loop-control", index)
            if not node.exists():
                # Where /dev is not the kernel's own devtmpfs, as in most containers, nobody else makes it.
                major, minor = map(int, (entry / "dev").read_text().split(":"))
                os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(major, minor))
        found += node.exists() and not (entry / "loop").exists()
        index += 1


def _add(control: Path, index: int) -> None:
    descriptor = os.open(control, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, LOOP_CTL_ADD, index)
    finally:
        os.close(descriptor)
