"""Uevents through libudev. They report that a device changed; the driver then reads the kernel's state."""

import os
import select
import socket
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.errors import CxlMemoryError

__all__ = ["MemoryUevents"]

_SUBSYSTEMS: Final = ("cxl", "dax")
_MAX_EVENTS: Final = 256
"""Maximum number of events that one call removes from the queue."""


class MemoryUevents:
    """A subscription to the uevents of CXL memory. It begins when the object is created.

    Args:
        udev_control: socket of udevd.

    Raises:
        CxlMemoryError: libudev or `pyudev` is missing, or the kernel denies the subscription.
    """

    def __init__(self, udev_control: Path) -> None:
        try:
            import pyudev  # noqa: PLC0415 - loads libudev, which a node with simulated memory may lack

            source = "udev" if udev_control.exists() else "kernel"
            self._monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source=source)
            for subsystem in _SUBSYSTEMS:
                self._monitor.filter_by(subsystem)
            self._monitor.start()
        except (ImportError, OSError) as error:
            raise CxlMemoryError(f"there are no uevents: {error} (they need libudev and pyudev)") from error
        self._socket = socket.socket(fileno=os.dup(self._monitor.fileno()))

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()
        del self._monitor

    def wait(self, timeout: float) -> bool:
        """Return whether an event arrived since the last call.

        Args:
            timeout: seconds to wait.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(timeout * 1000):
            return False
        for _ in range(_MAX_EVENTS):
            try:
                if self._monitor.poll(timeout=0) is None:
                    break
            except (OSError, ValueError):
                # Events were lost (ENOBUFS), or an event cannot be read (EINVAL, a ValueError of pyudev).
                # pyudev leaves the error ENOBUFS on the socket; getsockopt clears it.
                self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return True
