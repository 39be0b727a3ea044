"""The log of this machine's kernel, to which root can write."""

import os
from pathlib import Path
from typing import Final

import pytest

__all__ = ["KERNEL_LOG", "needs_kernel_log"]

KERNEL_LOG: Final = Path("/dev/kmsg")


def _can_be_written() -> bool:
    try:
        os.close(os.open(KERNEL_LOG, os.O_RDWR))
    except OSError:  # no root, or a container without the device or the capability
        return False
    return True


needs_kernel_log = pytest.mark.skipif(not _can_be_written(), reason="the kernel's log cannot be written here")
