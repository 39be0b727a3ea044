"""Debian's packages that a guest with CXL memory is made of, fetched once into a cache folder.

Debian 12's own QEMU and kernel cannot attach volatile CXL memory twice: both are taken from its backports.
`python -m tests.drivers.fabric_cxl.guest.packages` fetches them.
"""

from pathlib import Path
from typing import Final

from tests.drivers.guest import cache
from tests.drivers.guest.apt import fetch_qemu, open_apt, unpack_paths
from tests.drivers.guest.cache import RELEASE, PackageCache

SUITE: Final = f"{RELEASE}-backports"
KERNEL: Final = "6.12"
_OF_THE_KERNEL: Final = {
    "linux-image-{abi}": ("./boot/vmlinuz-*", *(f"./lib/modules/*/kernel/{each}" for each in (
        "drivers/virtio", "net/9p", "fs/9p", "fs/netfs", "drivers/net/virtio_net*", "drivers/net/net_failover*",
        "net/core/failover*", "drivers/cxl", "drivers/dax", "drivers/nvdimm"))),
    "busybox-static": ("./bin",),
}  # fmt: skip
"""Package -> what is unpacked of it."""
_CACHE: Final = PackageCache("cxl-guest", (SUITE, KERNEL, _OF_THE_KERNEL))


def find_missing() -> str:
    """Return why no guest can be made here; "" if it may work."""
    return cache.find_missing()


def kernel() -> Path:
    """Return the folder of the kernel with its modules, and of busybox.

    Raises:
        UnavailableError: it can't be fetched.
    """
    return _CACHE.get_or_fetch("kernel", _fetch_kernel, f"Debian's Linux {KERNEL} of {SUITE}, 107 MB")


def qemu() -> Path:
    """Return the folder of QEMU, and of all that it needs.

    Raises:
        UnavailableError: it can't be fetched.
    """
    return _CACHE.get_or_fetch("qemu", _fetch_qemu, f"Debian's QEMU of {SUITE}, 35 MB")


def _fetch_kernel(folder: Path) -> None:
    with open_apt(folder / ".apt", SUITE) as apt:
        abi, _ = apt.find_kernel(KERNEL)
        parts = {name.format(abi=abi): paths for name, paths in _OF_THE_KERNEL.items()}
        for archive, paths in zip(apt.download(*parts), parts.values(), strict=True):
            unpack_paths(archive, folder, paths)


def _fetch_qemu(folder: Path) -> None:
    fetch_qemu(folder, SUITE)


if __name__ == "__main__":
    cache.fetch_all(find_missing(), kernel, qemu)
