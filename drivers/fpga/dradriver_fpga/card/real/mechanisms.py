"""The ways to program a card. Each call blocks until the kernel or the vendor's program is done."""

import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import (
    BusyError,
    CardGoneError,
    FpgaError,
    FpgaNotSupportedError,
    FpgaPermissionError,
    ToolFailedError,
)
from dradriver_fpga.card.real.card_locks import CardLock
from dradriver_fpga.card.verified_files import VerifiedFile, create_private

__all__ = [
    "Kernel",
    "PortReconfiguration",
    "Tool",
    "make_error",
    "reconfigure_port",
    "run_tool",
    "write_firmware",
]

_DFL_FPGA_FME_PORT_PR: Final = 0xB680
"""_IO(0xB6, 0x80) of linux/fpga-dfl.h."""
_MAX_OUTPUT: Final = 300
_CLASSES: Final[dict[int, type[FpgaError]]] = {
    errno.EPERM: FpgaPermissionError,
    errno.EACCES: FpgaPermissionError,
    errno.EROFS: FpgaPermissionError,
    errno.EBUSY: BusyError,
    errno.ENODEV: CardGoneError,
    errno.ENXIO: CardGoneError,
    errno.ENOTTY: FpgaNotSupportedError,
}


class Kernel:
    """The kernel of this node."""

    def write(self, attribute: Path, text: str) -> None:
        """Write an attribute of sysfs.

        Raises:
            OSError: the kernel's error.
        """
        descriptor = os.open(attribute, os.O_WRONLY)  # many attributes are write-only
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make_folder(self, folder: Path) -> None:
        """Make a folder of configfs.

        Raises:
            OSError: the kernel's error.
        """
        folder.mkdir()

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder of configfs. The kernel removes the files in it.

        Raises:
            OSError: the kernel's error.
        """
        folder.rmdir()

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        """Make an ioctl on a device node.

        Raises:
            OSError: the kernel's error.
        """
        with node.open("r+b", buffering=0) as file:
            fcntl.ioctl(file.fileno(), request, argument)


class PortReconfiguration(ctypes.Structure):
    """`struct dfl_fpga_fme_port_pr`."""

    _fields_ = (
        ("argsz", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("port_id", ctypes.c_uint32),
        ("buffer_size", ctypes.c_uint32),
        ("buffer_address", ctypes.c_uint64),
    )


def make_error(error: OSError, subject: str) -> FpgaError:
    """Return the error for an error number of the kernel."""
    return _CLASSES.get(error.errno or 0, FpgaError)(f"{subject}: {error.strerror or error}")


def write_firmware(kernel: Kernel, manager: Path, folder: Path, file: VerifiedFile, *, partial: bool) -> None:
    """Make the manager load a firmware file, which exists only during the call.

    If the process dies during the call, the file remains. Each manager has only one file, which the next call
    replaces.

    Raises:
        FpgaError: the kernel rejected the file; the manager's state gives the phase that failed.
    """
    firmware = folder / f"dradriver-{manager.name}.bin"
    try:
        unfinished = firmware.with_suffix(".new")
        with create_private(unfinished) as target:
            file.send_bits(target)
        unfinished.replace(firmware)
        if (manager / "flags").exists():
            kernel.write(manager / "flags", "1" if partial else "0")
        kernel.write(manager / "firmware", firmware.name)
    except OSError as error:
        raise make_error(error, f"firmware {firmware.name} of {manager.name}") from error
    finally:
        firmware.unlink(missing_ok=True)


def reconfigure_port(kernel: Kernel, engine: Path, port: int, file: VerifiedFile) -> None:
    """Reconfigure a port through `/dev/dfl-fme.N`. The kernel copies the bits before it writes them.

    Raises:
        FpgaError: the kernel rejected the bits; the manager's state gives the phase that failed.
    """
    with file.map_bits() as (address, size):
        request = PortReconfiguration(
            argsz=ctypes.sizeof(PortReconfiguration), port_id=port, buffer_size=size, buffer_address=address
        )
        try:
            kernel.ioctl(engine, _DFL_FPGA_FME_PORT_PR, request)
        except OSError as error:
            raise make_error(error, f"port {port} through {engine}") from error


@dataclass(frozen=True, slots=True)
class Tool:
    """The vendor's program for a card.

    Attributes:
        command: the program and its arguments, with placeholders.
        card: PCI address of the function that the program accesses.
        timeout: seconds after which the program is killed; None: it is never killed, because it writes memory
            that a partial write makes unusable.
    """

    command: Sequence[str]
    card: str
    timeout: float | None


def run_tool(tool: Tool, file: Path, lock: CardLock) -> None:
    """Run the vendor's program, and wait for its end.

    The program inherits the card's lock, has a session of its own, and writes its output to a file. So if this
    process dies, the program continues, and the next process of the driver finds the card locked until the
    program ends.

    Args:
        tool: the program.
        file: the bitstream.
        lock: the lock of the card.

    Raises:
        ToolFailedError: the program is missing, failed, or was killed.
    """
    arguments = [word.format(card=tool.card, file=file) for word in tool.command]
    lock.describe(arguments[0])
    with tempfile.TemporaryFile(dir=lock.path.parent) as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's command, no shell
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[lock.descriptor],
            )
        except OSError as error:
            raise ToolFailedError(f"{arguments[0]} cannot be run: {error.strerror}") from error
        lock.describe(f"{arguments[0]} (process {process.pid})")
        try:
            status = process.wait(tool.timeout)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            message = f"{arguments[0]} for {tool.card} was killed after {tool.timeout:.0f} s"
            raise ToolFailedError(message) from error
        if status != 0:
            output.seek(max(0, output.tell() - _MAX_OUTPUT))
            text = output.read().decode(errors="replace").strip()
            raise ToolFailedError(f"{arguments[0]} for {tool.card} failed with exit status {status}: {text}")
