"""Finds libraries below a root: in the folders that distributions use, else by the dynamic linker's cache."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.host.root import resolve

__all__ = ["find_libraries"]

_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib/x86_64-linux-gnu/nvidia/current",
    "lib/aarch64-linux-gnu/nvidia/current",
    "usr/local/nvidia/lib64",
)
"""Folders in the order of NVIDIA's own tools. The last one is used by container-optimized nodes."""

_OLD: Final = b"ld.so-1.7.0\0"
_NEW: Final = b"glibc-ld.so.cache1.1"
_64_BIT: Final = {0x0300, 0x0A00}  # x86-64, aarch64
_ENTRY: Final = struct.Struct("=iIIIQ")


def find_libraries(root: Path, pattern: str) -> list[Path]:
    """Return the 64-bit libraries below `root` whose file name matches: regular files only, without repeats.

    Blocking.

    Args:
        root: root of the driver.
        pattern: file name, with `*`.
    """
    folders = dict.fromkeys(resolve(root, root / folder) for folder in _FOLDERS)
    there = (path for folder in folders if folder.is_dir() for path in _listed(folder, pattern))
    found = _real(root, there, pattern)
    return found or _real(root, _cached(root), pattern)


def _listed(folder: Path, pattern: str) -> list[Path]:
    # glob skips links whose target does not exist from this process's root.
    return sorted(path for path in folder.iterdir() if fnmatchcase(path.name, pattern))


def _real(root: Path, paths: Iterator[Path], pattern: str) -> list[Path]:
    resolved = (resolve(root, path) for path in paths if fnmatchcase(path.name, pattern))
    return list(dict.fromkeys(path for path in resolved if path.is_file()))


def _cached(root: Path) -> Iterator[Path]:
    """Yield the 64-bit entries of /etc/ld.so.cache, as far as it can be read.

    Source: glibc, `sysdeps/generic/dl-cache.h`.
    """
    with suppress(OSError, struct.error, ValueError):
        data = (root / "etc/ld.so.cache").read_bytes()
        start = 0
        if data.startswith(_OLD):
            (count,) = struct.unpack_from("=I", data, len(_OLD))
            start = -(-(len(_OLD) + 4 + 12 * count) // 8) * 8
        if not data.startswith(_NEW, start):
            return
        (count,) = struct.unpack_from("=I", data, start + len(_NEW))
        for index in range(count):
            flags, _, value, _, _ = _ENTRY.unpack_from(data, start + 48 + index * _ENTRY.size)
            if flags & 0xFF00 in _64_BIT:
                text = data[start + value : data.index(b"\0", start + value)]
                yield root / text.decode(errors="surrogateescape").lstrip("/")
