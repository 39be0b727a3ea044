"""A guest with the kernel's FPGA core and FPGAs for it."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.drivers.fpga.guest import packages
from tests.drivers.fpga.guest.packages import CORE
from tests.drivers.guest.machine import Guest, find_qemu

FIRMWARE: Final = Path("/run/firmware")
"""Where the guest's kernel looks for firmware."""
_HERE: Final = Path(__file__).parent
_SHARE: Final = ("virtio_pci", "9pnet_virtio", "9p")
"""The kernel's own modules that the share of the host's files takes."""
_MACHINE: Final = ("-machine", "pc", "-cpu", "max", "-smp", "2", "-m", "512")
_KERNEL_LINE: Final = (
    # What the kernel warns of ends the guest, and so does its panic.
    f"panic_on_warn=1 oops=panic firmware_class.path=/host{FIRMWARE}"
)


def make_guest(folder: Path) -> Guest:
    """Fetch what a guest takes, and build its modules below a folder.

    Raises:
        UnavailableError: something can't be fetched.
        CalledProcessError: a module can't be built.
    """
    kernel, qemu = packages.kernel(), find_qemu(packages.qemu())
    print("building the guest's modules ...", flush=True)
    built = _build_modules(kernel, folder / "module")
    load = (*_SHARE, *(module.stem for module in built))
    return Guest(kernel, load, qemu, _MACHINE, _KERNEL_LINE, built)


def _build_modules(kernel: Path, folder: Path) -> list[Path]:
    """Build those of `module/`, and the kernel's FPGA core, below a new folder."""
    shutil.copytree(_HERE / "module", folder)
    for name in CORE:
        shutil.copy(kernel / "drivers" / "fpga" / name, folder)
    (headers,), (common,) = (
        list(kernel.glob(f"usr/src/linux-headers-*-{kind}")) for kind in ("amd64", "common")
    )
    # The makefile of the former names the place where the package would have been installed.
    place = ("-C", str(headers), "-f", str(common / "Makefile"), f"M={folder}")
    without_btf = "CONFIG_DEBUG_INFO_BTF_MODULES="  # which would take the kernel's own
    libelf = {"LD_LIBRARY_PATH": str(kernel / "usr/lib/x86_64-linux-gnu")}
    command = ("make", "--silent", *place, without_btf, "modules")
    subprocess.run(command, env={**os.environ, **libelf}, check=True)
    return sorted(folder.glob("*.ko"))
