"""The two ways in which the kernel is asked to change a card: both block until it is done."""

import ctypes
import fcntl
import os
from pathlib import Path

__all__ = ["Kernel"]


class Kernel:
    """This node's kernel."""

    def write(self, attribute: Path, text: str) -> None:
        """Writes an attribute of sysfs.

        Raises:
            OSError: the kernel's answer.
        """
        descriptor = os.open(attribute, os.O_WRONLY)  # many attributes can't be read
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        """Makes a request of a device node.

        Raises:
            OSError: the kernel's answer.
        """
        with node.open("r+b", buffering=0) as file:
            fcntl.ioctl(file.fileno(), request, argument)
