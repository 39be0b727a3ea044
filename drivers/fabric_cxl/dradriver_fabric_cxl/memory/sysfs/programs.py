"""Work in processes of its own.

The kernel can try forever to bring memory offline, until a signal ends the process. Memory that is pulled while
it is written ends the process with SIGBUS.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.errors import CxlMemoryError

__all__ = ["clear_device", "write_all"]

_CHILD: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")))
_CHUNK: Final = 16 << 20
"""Bytes that are cleared between two reports."""


def write_all(text: str, paths: Sequence[Path], seconds: float) -> int | None:
    """Write a text into attributes, one after another.

    If this process dies, the other one continues with its attributes.

    Args:
        text: the text.
        paths: the attributes.
        seconds: time limit of all writes together.

    Returns:
        0; the number of the first error; None if the time is over.
    """
    try:
        return subprocess.run(  # noqa: S603 - this package's own program
            [*_CHILD, "write", text, *map(str, paths)], timeout=seconds, check=False, stdin=subprocess.DEVNULL
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def clear_device(device: Path, size: int, proceed: Callable[[int], bool]) -> bool:
    """Overwrite a character device with zeros.

    If this process dies, the other one stops after its chunk.

    Args:
        device: the device.
        size: bytes.
        proceed: called after each chunk with the number of bytes cleared so far; False stops.

    Returns:
        Whether everything was cleared.

    Raises:
        CxlMemoryError: the device cannot be written, or was pulled.
    """
    command = [*_CHILD, "clear", str(device), str(size), str(_CHUNK)]
    with subprocess.Popen(  # noqa: S603 - this package's own program
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            for line in child.stdout or ():
                if not proceed(int(line)):
                    child.kill()
                    return False
        except BaseException:
            child.kill()
            raise
    status = child.returncode
    if status < 0:
        raise CxlMemoryError(f"{device}: clearing ended with {signal.Signals(-status).name}")
    if status:
        raise CxlMemoryError(f"{device} cannot be cleared: {os.strerror(status)}")
    return True
