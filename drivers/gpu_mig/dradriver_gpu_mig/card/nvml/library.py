"""Finds and loads libnvidia-ml.so.1."""

import ctypes
import os
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.card.errors import LibraryNotFoundError
from dradriver_gpu_mig.host.ldcache import find_libraries

__all__ = ["LIBRARY_NAME", "find_library", "load_library"]

LIBRARY_NAME: Final = "libnvidia-ml.so.1"


def find_library(driver_root: Path) -> Path | None:
    """Return the library of the driver that is installed below a root, or None. Blocking.

    `pynvml` searches only the folders of the dynamic linker. If a container installs the driver, the files are
    below `/run/nvidia/driver`, which the linker does not search.

    Args:
        driver_root: folder below which the driver is installed, as this process sees it.
    """
    return next(iter(find_libraries(driver_root, LIBRARY_NAME)), None)


def load_library(library: Path | None) -> None:
    """Load the library. `pynvml` then uses this library, because the linker finds it by its soname. Blocking.

    If this process has already loaded a library, that library stays in use: a process has only one NVML.

    Args:
        library: path of the library; None: the library that the linker finds.

    Raises:
        LibraryNotFoundError: the library cannot be loaded.
    """
    try:
        ctypes.CDLL(LIBRARY_NAME if library is None else os.fspath(library))
    except OSError as error:
        raise LibraryNotFoundError(
            f"{library or LIBRARY_NAME} cannot be loaded ({error}): check that NVIDIA's driver is installed",
            code=12,
        ) from error
