"""Finds libraries below a root: in the folders that distributions use, else by the dynamic linker's cache."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.host.paths import resolve

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
"""Folders in the order of NVIDIA's own tools. Container-optimized nodes use the last folder."""

_OLD_MAGIC: Final = b"ld.so-1.7.0\0"
_NEW_MAGIC: Final = b"glibc-ld.so.cache1.1"
_64_BIT_FLAGS: Final = {0x0300, 0x0A00}  # x86-64, aarch64
_ENTRY: Final = struct.Struct("=iIIIQ")


def find_libraries(root: Path, *patterns: str) -> list[Path]:
    """Return the 64-bit libraries below `root` whose file name matches. Each regular file is listed once.

    Blocking. The dynamic linker's cache is read only if no library is in one of the usual folders.

    Args:
        root: root of the driver.
        patterns: file names, with `*`.
    """
    folders = dict.fromkeys(resolve(root, root / folder) for folder in _FOLDERS)
    candidates = (path for folder in folders if folder.is_dir() for path in _list_matching(folder, patterns))
    found = _resolve_files(root, candidates, patterns)
    return found or _resolve_files(root, _read_ld_cache(root), patterns)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _list_matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    # glob skips a link if its target does not exist below this process's root.
    return sorted(path for path in folder.iterdir() if _matches(path.name, patterns))


def _resolve_files(root: Path, paths: Iterator[Path], patterns: tuple[str, ...]) -> list[Path]:
    resolved = (resolve(root, path) for path in paths if _matches(path.name, patterns))
    return list(dict.fromkeys(path for path in resolved if path.is_file()))


def _read_ld_cache(root: Path) -> Iterator[Path]:
    """Yield the 64-bit entries of /etc/ld.so.cache, as far as the file can be read.

    Source: glibc, `sysdeps/generic/dl-cache.h`.
    """
    with suppress(OSError, struct.error, ValueError):
        data = (root / "etc/ld.so.cache").read_bytes()
        start = 0
        if data.startswith(_OLD_MAGIC):
            (count,) = struct.unpack_from("=I", data, len(_OLD_MAGIC))
            start = -(-(len(_OLD_MAGIC) + 4 + 12 * count) // 8) * 8
        if not data.startswith(_NEW_MAGIC, start):
            return
        (count,) = struct.unpack_from("=I", data, start + len(_NEW_MAGIC))
        for index in range(count):
            flags, _, value, _, _ = _ENTRY.unpack_from(data, start + 48 + index * _ENTRY.size)
            if flags & 0xFF00 in _64_BIT_FLAGS:
                text = data[start + value : data.index(b"\0", start + value)]
                yield root / text.decode(errors="surrogateescape").lstrip("/")
