"""The ways to program a card. Each call blocks until the kernel or the vendor's program is done."""

import ctypes
import errno
import fcntl
import os
import subprocess
from collections.abc import Sequence
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

__all__ = ["Kernel", "PortReconfiguration", "make_error", "reconfigure_port", "run_tool", "write_firmware"]

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


def write_firmware(kernel: Kernel, manager: Path, folder: Path, bits: bytes, *, partial: bool) -> None:
    """Make the manager load a firmware file, which exists only during the call.

    If the process dies during the call, the file remains. Each manager has only one file, which the next call
    replaces.

    Raises:
        FpgaError: the kernel rejected the file; the manager's state gives the phase that failed.
    """
    file = folder / f"dradriver-{manager.name}.bin"
    try:
        unfinished = file.with_suffix(".new")
        unfinished.write_bytes(bits)
        unfinished.replace(file)
        if (manager / "flags").exists():
            kernel.write(manager / "flags", "1" if partial else "0")
        kernel.write(manager / "firmware", file.name)
    except OSError as error:
        raise make_error(error, f"firmware {file.name} of {manager.name}") from error
    finally:
        file.unlink(missing_ok=True)


def reconfigure_port(kernel: Kernel, engine: Path, port: int, bits: bytes) -> None:
    """Reconfigure a port through `/dev/dfl-fme.N`.

    Raises:
        FpgaError: the kernel rejected the bits; the manager's state gives the phase that failed.
    """
    buffer = ctypes.create_string_buffer(bits, len(bits))
    request = PortReconfiguration(
        argsz=ctypes.sizeof(PortReconfiguration),
        port_id=port,
        buffer_size=len(bits),
        buffer_address=ctypes.addressof(buffer),
    )
    try:
        kernel.ioctl(engine, _DFL_FPGA_FME_PORT_PR, request)
    except OSError as error:
        raise make_error(error, f"port {port} through {engine}") from error


def run_tool(command: Sequence[str], card: str, file: Path, timeout: float) -> None:
    """Run the vendor's program. It is killed after `timeout` seconds.

    Raises:
        ToolFailedError: the program is missing, failed, or was killed.
    """
    arguments = [word.format(card=card, file=file) for word in command]
    try:
        completed = subprocess.run(  # noqa: S603 - the operator's command, no shell
            arguments, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailedError(f"{arguments[0]} for {card} was killed after {timeout:.0f} s") from error
    except OSError as error:
        raise ToolFailedError(f"{arguments[0]} cannot be run: {error.strerror}") from error
    if completed.returncode != 0:
        output = (completed.stderr.strip() or completed.stdout.strip())[-_MAX_OUTPUT:]
        raise ToolFailedError(
            f"{arguments[0]} for {card} failed with exit status {completed.returncode}: {output}"
        )
