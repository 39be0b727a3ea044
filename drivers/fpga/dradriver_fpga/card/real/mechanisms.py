"""The ways to program a card. Each call blocks until the kernel or the vendor's program is done."""

import ctypes
import errno
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import (
    BusyError,
    CardError,
    CardGoneError,
    NoPermissionError,
    NotSupportedError,
    ToolFailedError,
)
from dradriver_fpga.card.real.kernel import Kernel

__all__ = ["PortReconfiguration", "error_of", "reconfigure_port", "run_tool", "write_firmware"]

_DFL_FPGA_FME_PORT_PR: Final = 0xB680
"""_IO(0xB6, 0x80) of linux/fpga-dfl.h."""
_LAST_WORDS: Final = 300
_CLASSES: Final[dict[int, type[CardError]]] = {
    errno.EPERM: NoPermissionError,
    errno.EACCES: NoPermissionError,
    errno.EROFS: NoPermissionError,
    errno.EBUSY: BusyError,
    errno.ENODEV: CardGoneError,
    errno.ENXIO: CardGoneError,
    errno.ENOTTY: NotSupportedError,
}


class PortReconfiguration(ctypes.Structure):
    """`struct dfl_fpga_fme_port_pr`."""

    _fields_ = (
        ("argsz", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("port_id", ctypes.c_uint32),
        ("buffer_size", ctypes.c_uint32),
        ("buffer_address", ctypes.c_uint64),
    )


def error_of(error: OSError, about: str) -> CardError:
    """Return the error for an error number of the kernel."""
    return _CLASSES.get(error.errno or 0, CardError)(f"{about}: {error.strerror or error}")


def write_firmware(kernel: Kernel, manager: Path, folder: Path, bits: bytes, *, partial: bool) -> None:
    """Make the manager load a firmware file, which exists only during the call.

    A process that dies during the call leaves the file. Each manager has one file, and the next call replaces
    it.

    Raises:
        CardError: the kernel rejected the file; the manager's state gives the phase.
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
        raise error_of(error, f"firmware {file.name} of {manager.name}") from error
    finally:
        file.unlink(missing_ok=True)


def reconfigure_port(kernel: Kernel, engine: Path, port: int, bits: bytes) -> None:
    """Reconfigure a port through `/dev/dfl-fme.N`.

    Raises:
        CardError: the kernel rejected the bits; the manager's state gives the phase.
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
        raise error_of(error, f"port {port} through {engine}") from error


def run_tool(command: Sequence[str], card: str, file: Path, timeout: float) -> None:
    """Run the vendor's program. It is killed after `timeout` seconds.

    Raises:
        ToolFailedError: it is missing, failed, or was killed.
    """
    words = [word.format(card=card, file=file) for word in command]
    try:
        done = subprocess.run(  # noqa: S603 - the operator's command, no shell
            words, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailedError(f"{words[0]} for {card} was killed after {timeout:.0f} s") from error
    except OSError as error:
        raise ToolFailedError(f"{words[0]} can't be run: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-_LAST_WORDS:]
        raise ToolFailedError(f"{words[0]} for {card} ended with {done.returncode}: {said}")
