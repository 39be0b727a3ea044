"""The kernel's interface to loop devices: /sys/block, /dev and /dev/loop-control."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOP_CTL_ADD: Final = 0x4C80
"""ioctl of /dev/loop-control that creates the loop device with a given index (`linux/loop.h`)."""
HIGHEST: Final = 256
"""Upper limit of loop devices. No device is created with this index or a higher index."""
SECTOR: Final = 512
"""Bytes in a unit of /sys/block/*/size, independent of the device's own block size."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop device of the machine.

    Attributes:
        index: number of the device.
        path: path of the device node.
        backed: whether a file backs the device now.
        size: size in bytes; 0 while no file backs the device.
    """

    index: int
    path: str
    backed: bool
    size: int


def find_loops(sys_block: Path = Path("/sys/block"), dev: Path = Path("/dev")) -> Iterator[Loop]:
    """Yield the loop devices that have a device node, in order of their numbers."""
    numbers = (name.name.removeprefix("loop") for name in sys_block.glob("loop*"))
    for index in sorted(int(number) for number in numbers if number.isdigit()):
        entry, node = sys_block / f"loop{index}", dev / f"loop{index}"
        # A device can disappear at any moment. A device that cannot be read counts as missing.
        with suppress(OSError, ValueError):
            if stat.S_ISBLK(node.stat().st_mode):
                sectors = int((entry / "size").read_text())
                yield Loop(index, str(node), (entry / "loop").exists(), sectors * SECTOR)


def make_loops(*, free: int, sys_block: Path = Path("/sys/block"), dev: Path = Path("/dev")) -> None:
    """Create loop devices until `free` of them have no backing file.

    A device is skipped if the kernel or the permissions do not allow its creation.

    Args:
        free: number of devices without a backing file.
        sys_block: /sys/block, or a folder for tests.
        dev: /dev, or a folder for tests.
    """
    index = found = 0
    while found < free and index < HIGHEST:
        entry, node = sys_block / f"loop{index}", dev / f"loop{index}"
        with suppress(OSError, ValueError):
            if not entry.exists():
                _create_loop(dev / "loop-control", index)
            if not node.exists():
                # If /dev is not the kernel's devtmpfs, as in most containers, nothing else creates the node.
                major, minor = map(int, (entry / "dev").read_text().split(":"))
                os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(major, minor))
        found += node.exists() and not (entry / "loop").exists()
        index += 1


def _create_loop(control: Path, index: int) -> None:
    descriptor = os.open(control, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, LOOP_CTL_ADD, index)
    finally:
        os.close(descriptor)
