"""A machine of QEMU's, without hardware help: it is the same everywhere."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.drivers.guest.image import find_modules, make_initramfs

QEMU: Final = "qemu-system-x86_64"
LIMIT: Final = 240.0
"""Seconds until a guest is ended; it takes half a minute on two cores."""
_KERNEL_LINE: Final = "console=ttyS0 quiet panic=-1"
_MACHINE: Final = (
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-accel", "tcg,thread=multi"),
    *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
)
_ENVIRONMENT: Final = {
    "PATH": f"{os.defpath}:/usr/sbin:/sbin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TMPDIR": "/run/tmp",
    "HOME": "/run/tmp",
}
_ROOT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class QemuProgram:
    """QEMU's command and what its environment needs; see `find_qemu`."""

    command: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Guest:
    """A machine that can be booted. It sees the host's files, read-only, and its folder /run is its own.

    Attributes:
        kernel: folder with an unpacked kernel and busybox.
        load: names of the modules to load.
        qemu: the program.
        machine: QEMU's options for the machine: its kind, processor and memory.
        kernel_line: words for the kernel beside the usual ones.
        built: files of further modules.
    """

    kernel: Path
    load: Sequence[str]
    qemu: QemuProgram
    machine: Sequence[str]
    kernel_line: str
    built: Sequence[Path] = field(default=())

    def run(self, suite: str, folder: Path, limit: float, *options: str) -> str:
        """Boot it, run the shell's commands of `suite` among the host's files, and wait for its end.

        What it prints goes to stdout. It does not outlive this process.

        Args:
            suite: the commands.
            folder: an empty one.
            limit: seconds after which it is ended.
            options: further options of QEMU's.

        Returns:
            The exit status of the commands; "" when it ended without one.

        Raises:
            CalledProcessError: QEMU failed.
            TimeoutExpired: it took too long.
        """
        modules, status = find_modules(self.kernel, self.built), folder / "status"
        initramfs = make_initramfs(self.kernel, modules, self.load, suite, folder)
        boot = ("-kernel", str(next(self.kernel.glob("boot/vmlinuz-*"))), "-initrd", str(initramfs))
        line = f"{_KERNEL_LINE} {self.kernel_line}"
        lines = ("-append", line, "-serial", "stdio", "-serial", f"file:{status}")
        qemu = ("setpriv", "--pdeathsig", "KILL", *self.qemu.command, *_MACHINE, *self.machine)
        command = (*qemu, *boot, *lines, *options)
        print("booting the guest ...", flush=True)
        environment = {**os.environ, **self.qemu.environment}
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=limit, check=True)
        return status.read_text().strip()


def find_qemu(root: Path | None) -> QemuProgram:
    """Return the QEMU of an unpacked root with libraries of its own, or for None the machine's own QEMU."""
    if root is None:
        return QemuProgram((shutil.which(QEMU) or QEMU,), {})
    libraries = [root / each / "x86_64-linux-gnu" for each in ("lib", "usr/lib")]
    share = (word for name in ("qemu", "seabios") for word in ("-L", str(root / "usr/share" / name)))
    loader = (str(root / "lib64/ld-linux-x86-64.so.2"), "--library-path", ":".join(map(str, libraries)))
    modules = {"QEMU_MODULE_DIR": str(libraries[1] / "qemu")}
    return QemuProgram((*loader, str(root / "usr/bin" / QEMU), *share), modules)


def write_command(command: Sequence[str], paths: Sequence[Path] = (), **variables: str) -> str:
    """Return the shell's line for a command in the checkout with an environment of its own.

    Args:
        command: the words.
        paths: folders in which Python looks for modules, beside the checkout.
        variables: further variables of the environment.
    """
    environment = {"PYTHONPATH": ":".join(map(str, (_ROOT, *paths))), **_ENVIRONMENT, **variables}
    assignments = [f"{name}={text}" for name, text in environment.items()]
    return f"{shlex.join(('exec', 'env', '-i', '-C', str(_ROOT), *assignments, *command))}\n"
