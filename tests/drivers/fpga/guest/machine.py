"""A machine of QEMU's, without hardware help: it is the same everywhere."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.drivers.fpga.guest import packages
from tests.drivers.fpga.guest.image import build_modules, make_initramfs

FIRMWARE: Final = Path("/run/firmware")
"""Where the guest's kernel looks for firmware."""
_KERNEL_LINE: Final = (
    # What the kernel warns of ends the guest, and so does its panic.
    f"console=ttyS0 quiet panic=-1 panic_on_warn=1 oops=panic firmware_class.path=/host{FIRMWARE}"
)
_MACHINE: Final = (
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
    *("-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "512"),
    *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
)


@dataclass(frozen=True, slots=True)
class Guest:
    """A machine that can be booted; see `make_guest`."""

    kernel: Path
    modules: Sequence[Path]
    qemu: Sequence[str]
    environment: Mapping[str, str]

    def run(self, suite: str, folder: Path, limit: float) -> str:
        """Boots it, runs the shell's commands of `suite` among the host's files, and waits for its end.

        What it prints goes to stdout. It does not outlive this process.

        Args:
            suite: the commands.
            folder: an empty one.
            limit: seconds after which it is ended.

        Returns:
            The exit status of the commands; "" when it ended without one.

        Raises:
            CalledProcessError: QEMU failed.
            TimeoutExpired: it took too long.
        """
        initramfs, status = make_initramfs(self.kernel, self.modules, suite, folder), folder / "status"
        boot = ("-kernel", str(next(self.kernel.glob("boot/vmlinuz-*"))), "-initrd", str(initramfs))
        lines = ("-append", _KERNEL_LINE, "-serial", "stdio", "-serial", f"file:{status}")
        command = ("setpriv", "--pdeathsig", "KILL", *self.qemu, *_MACHINE, *boot, *lines)
        print("booting the guest ...", flush=True)
        environment = {**os.environ, **self.environment}
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=limit, check=True)
        return status.read_text().strip()


def make_guest(folder: Path) -> Guest:
    """Fetches what a guest takes, and builds its modules below a folder.

    Raises:
        UnavailableError: something can't be fetched.
        CalledProcessError: a module can't be built.
    """
    kernel, (qemu, environment) = packages.kernel(), _qemu()
    print("building the guest's modules ...", flush=True)
    return Guest(kernel, build_modules(kernel, folder / "module"), qemu, environment)


def _qemu() -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and its environment: the machine's own QEMU, or the cache's with libraries of its own."""
    if (installed := shutil.which(packages.QEMU)) is not None:
        return (installed,), {}
    root = packages.qemu()
    libraries = [root / each / "x86_64-linux-gnu" for each in ("lib", "usr/lib")]
    share = (word for name in ("qemu", "seabios") for word in ("-L", str(root / "usr/share" / name)))
    loader = (str(root / "lib64/ld-linux-x86-64.so.2"), "--library-path", ":".join(map(str, libraries)))
    modules = {"QEMU_MODULE_DIR": str(libraries[1] / "qemu")}
    return (*loader, str(root / "usr/bin" / packages.QEMU), *share), modules
