"""Debian's packages that a guest with FPGAs is made of, fetched once into a cache folder.

`python -m tests.drivers.fpga.guest.packages` fetches them.
"""

import ctypes.util
import shutil
from pathlib import Path
from typing import Final

from tests.drivers.guest import cache
from tests.drivers.guest.apt import fetch_qemu, open_apt, unpack, unpack_paths
from tests.drivers.guest.cache import PackageCache
from tests.drivers.guest.machine import QEMU

KERNEL: Final = "6.1"
COMPILER: Final = "gcc-12"
"""The release's kernel, and the compiler that its kernel takes for modules."""
CORE: Final = ("fpga-mgr.c", "fpga-bridge.c", "fpga-region.c")
"""The kernel's FPGA core, which Debian's kernel is built without."""
_SOURCES: Final = f"linux-source-{KERNEL}"
_OF_THE_KERNEL: Final = {
    "linux-image-{abi}": ("./boot/vmlinuz-*", *(f"./lib/modules/*/kernel/{each}" for each in (
        "drivers/virtio", "net/9p", "fs/9p", "fs/netfs", "fs/fscache"))),
    "linux-headers-{abi}": (".",),
    "linux-headers-{version}-common": (".",),
    f"linux-kbuild-{KERNEL}": (".",),
    "libelf1": ("./usr/lib",),
    "busybox-static": ("./bin",),
}  # fmt: skip
"""Package -> what is unpacked of it, beside the sources."""
_CACHE: Final = PackageCache("fpga-guest", (_OF_THE_KERNEL, CORE, "qemu-system-x86"))


def find_missing() -> str:
    """Return why no guest can be made here; "" if it may work."""
    if reason := cache.find_missing(("xz", "make", COMPILER), "xz-utils build-essential"):
        return reason
    if ctypes.util.find_library("udev") is None:
        return "not installed: libudev (Debian: libudev1)"
    return ""


def kernel() -> Path:
    """Return the folder of Debian's kernel, what modules are built with, and the FPGA core's sources.

    Raises:
        UnavailableError: it can't be fetched.
    """
    return _CACHE.get_or_fetch("kernel", _fetch_kernel, f"Debian's Linux {KERNEL} with its sources, 230 MB")


def qemu() -> Path | None:
    """Return the folder of Debian's QEMU, and of all that it needs; None if the machine has a QEMU.

    Raises:
        UnavailableError: it can't be fetched.
    """
    if shutil.which(QEMU) is not None:
        return None
    return _CACHE.get_or_fetch("qemu", fetch_qemu, "Debian's QEMU, 43 MB")


def _fetch_kernel(folder: Path) -> None:
    with open_apt(folder / ".apt") as apt:
        abi, version = apt.find_kernel(KERNEL)
        parts = {name.format(abi=abi, version=version): paths for name, paths in _OF_THE_KERNEL.items()}
        sources, *archives = apt.download(_SOURCES, *parts)
        for archive, paths in zip(archives, parts.values(), strict=True):
            unpack_paths(archive, folder, paths)
        core = [f"{_SOURCES}/drivers/fpga/{name}" for name in CORE]
        within = f"./usr/src/{_SOURCES}.tar.xz"
        # The sources are a hundred times larger than what is wanted of them.
        strip = f'| tar -xO "{within}" | tar -xJ -C "$folder" --strip-components=1 --occurrence=1 "$@"'
        unpack(sources, folder, strip, core)


if __name__ == "__main__":
    cache.fetch_all(find_missing(), kernel, qemu)
