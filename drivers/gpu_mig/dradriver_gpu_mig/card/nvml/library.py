"""libnvidia-ml.so.1: where it is, and loading it from there."""

import ctypes
import os
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.card.errors import LibraryNotFoundError
from dradriver_gpu_mig.host.ldcache import find_libraries

__all__ = ["NAME", "find_library", "load_library"]

NAME: Final = "libnvidia-ml.so.1"


def find_library(driver_root: Path) -> Path | None:
    """The library of the driver that is installed below a root; None if there is none. Blocking.

    `pynvml` looks nowhere but where the dynamic linker does, and a driver that is installed by a container has
    its files below `/run/nvidia/driver`, which the linker doesn't know.
    """
    return next(iter(find_libraries(driver_root, NAME)), None)


def load_library(library: Path | None) -> None:
    """Loads the library, so that `pynvml` takes it: the linker knows it by its soname from now on. Blocking.

    Another one that this process loaded before stays: a process has one NVML.

    Args:
        library: the file; None for the one that the linker finds by itself.

    Raises:
        LibraryNotFoundError: it can't be loaded.
    """
    try:
        ctypes.CDLL(NAME if library is None else os.fspath(library))
    except OSError as error:
        hint = "is the driver of NVIDIA installed on this node?"
        raise LibraryNotFoundError(f"{library or NAME} can't be loaded, {hint} ({error})", code=12) from error
