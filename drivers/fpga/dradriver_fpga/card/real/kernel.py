"""The two ways to change a card through the kernel. Both block until the change is complete."""

import ctypes
import fcntl
import os
from pathlib import Path

__all__ = ["Kernel"]


class Kernel:
    """The kernel of this node."""

    def write(self, attribute: Path, text: str) -> None:
        """Write an attribute of sysfs.

        Raises:
            OSError: the kernel's error.
        """
        descriptor = os.open(attribute, os.O_WRONLY)  # many attributes are write-only
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        """Make an ioctl on a device node.

        Raises:
            OSError: the kernel's error.
        """
        with node.open("r+b", buffering=0) as file:
            fcntl.ioctl(file.fileno(), request, argument)
