"""Memory of a NUMA node in use by a program, in ways that the kernel can move and cannot move."""

import ctypes
import mmap
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PAGE: Final = mmap.PAGESIZE
_MBIND: Final = 237
_BIND: Final = 2
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


@contextmanager
def pinned_memory(node: int) -> Iterator[None]:
    """Hold a page of a NUMA node that the kernel cannot move: a pipe refers to it.

    Args:
        node: number of the NUMA node.
    """
    with mmap.mmap(-1, PAGE) as memory:
        start = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(start)
        nodes = ctypes.c_ulong(1 << node)
        # The kernel counts one bit less than it is given.
        _check(_LIBC.syscall(_MBIND, ctypes.c_void_p(address), PAGE, _BIND, ctypes.byref(nodes), 65, 0))
        memory[0] = 1
        reader, writer = os.pipe()
        try:
            part = _Range(address, PAGE)
            _check(_LIBC.vmsplice(writer, ctypes.byref(part), 1, 0))
            yield
        finally:
            os.close(reader)
            os.close(writer)
            del start


@contextmanager
def mounted_memory(folder: Path, node: int) -> Iterator[Path]:
    """Yield a file system in the memory of a NUMA node. The kernel can move its pages.

    Args:
        folder: a new folder.
        node: number of the NUMA node.
    """
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", f"mpol=bind:{node}", "tmpfs", str(folder)), check=True)
    try:
        yield folder
    finally:
        subprocess.run(("umount", str(folder)), check=True)


def count_file_pages(node: int) -> int:
    """Return the number of pages of a NUMA node that contain files in memory."""
    text = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text()
    found = re.search(r"Shmem:\s+(\d+) kB", text)
    assert found is not None
    return (int(found[1]) << 10) // PAGE


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
