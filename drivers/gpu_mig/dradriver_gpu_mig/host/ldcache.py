"""Libraries below a root: where distributions put those of the driver, else what the dynamic linker knows."""

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
"""The order of NVIDIA's own tools; the last is where container-optimized nodes have it."""

_OLD: Final = b"ld.so-1.7.0\0"
_NEW: Final = b"glibc-ld.so.cache1.1"
_64_BIT: Final = {0x0300, 0x0A00}  # x86-64, aarch64
_ENTRY: Final = struct.Struct("=iIIIQ")


def find_libraries(root: Path, pattern: str) -> list[Path]:
    """The 64-bit libraries below `root` whose file name matches, real files only, each once. Blocking.

    Args:
        root: the driver's.
        pattern: a file name, with `*`.
    """
    folders = dict.fromkeys(resolve(root, root / folder) for folder in _FOLDERS)
    there = (path for folder in folders if folder.is_dir() for path in _listed(folder, pattern))
    found = _real(root, there, pattern)
    return found or _real(root, _cached(root), pattern)


def _listed(folder: Path, pattern: str) -> list[Path]:
    # Not glob: it passes links over that lead to nowhere from here.
    return sorted(path for path in folder.iterdir() if fnmatchcase(path.name, pattern))


def _real(root: Path, paths: Iterator[Path], pattern: str) -> list[Path]:
    resolved = (resolve(root, path) for path in paths if fnmatchcase(path.name, pattern))
    return list(dict.fromkeys(path for path in resolved if path.is_file()))


def _cached(root: Path) -> Iterator[Path]:
    """What /etc/ld.so.cache lists (glibc, `sysdeps/generic/dl-cache.h`); as far as it can be read."""
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
