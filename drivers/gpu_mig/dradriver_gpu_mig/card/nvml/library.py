"""Finds and loads libnvidia-ml.so.1."""

import ctypes
import os
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.card.errors import LibraryNotFoundError
from dradriver_gpu_mig.host.ldcache import find_libraries

__all__ = ["NAME", "find_library", "load_library"]

NAME: Final = "libnvidia-ml.so.1"


def find_library(driver_root: Path) -> Path | None:
    """Return the library of the driver below a root, or None. Blocking.

    `pynvml` searches only where the dynamic linker does. A driver that a container installs has its files below
    `/run/nvidia/driver`, which the linker does not know.
    """
    return next(iter(find_libraries(driver_root, NAME)), None)


def load_library(library: Path | None) -> None:
    """Load the library. `pynvml` then uses it, because the linker knows it by its soname. Blocking.

    A library that this process loaded before stays: a process has one NVML.

    Args:
        library: the file; None: the one that the linker finds.

    Raises:
        LibraryNotFoundError: it cannot be loaded.
    """
    try:
        ctypes.CDLL(NAME if library is None else os.fspath(library))
    except OSError as error:
        hint = "is the driver of NVIDIA installed on this node?"
        raise LibraryNotFoundError(f"{library or NAME} can't be loaded, {hint} ({error})", code=12) from error
