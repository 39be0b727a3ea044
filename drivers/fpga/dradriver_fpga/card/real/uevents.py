"""Uevents through libudev. They report that a device changed; the driver then reads the device from sysfs."""

import os
import select
import socket
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import FpgaNotSupportedError

__all__ = ["Uevents"]

_SUBSYSTEMS: Final = (
    "fpga_manager",
    "fpga_region",
    "fpga_bridge",
    "fpga",
    "platform",
    "dfl",
    "pci",
    "drm",
    "vfio",
)
_MAX_EVENTS: Final = 512
"""Maximum number of events that one call removes from the queue, so that many events do not block the next
read."""


class Uevents:
    """A subscription to the uevents that may concern FPGAs. It begins when the object is created.

    Without udevd, the events come from the kernel. If udevd runs, its events are used instead, because udevd
    sends an event after it has created the device nodes. The queue of events is bounded. If events are lost,
    `wait` returns True.

    Args:
        udev_control: socket of udevd.

    Raises:
        FpgaNotSupportedError: libudev or `pyudev` is missing, or the kernel denies the subscription.
    """

    def __init__(self, udev_control: Path) -> None:
        try:
            import pyudev  # noqa: PLC0415 - loads libudev, which a node with simulated cards may lack

            monitor = pyudev.Monitor.from_netlink(
                pyudev.Context(), source="udev" if udev_control.exists() else "kernel"
            )
            for subsystem in _SUBSYSTEMS:
                monitor.filter_by(subsystem)
            monitor.start()
        except (ImportError, OSError) as error:
            raise FpgaNotSupportedError(
                f"there are no uevents: {error} (they need libudev and pyudev)"
            ) from error
        self._monitor = monitor
        self._socket = socket.socket(fileno=os.dup(monitor.fileno()))

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()
        del self._monitor

    def wait(self, timeout: float) -> bool:
        """Return whether an event arrived since the last call. Waits up to `timeout` seconds."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(timeout * 1000):
            return False
        received = False
        for _ in range(_MAX_EVENTS):
            try:
                event = self._monitor.poll(timeout=0)
            except (OSError, ValueError):
                # Events were lost (ENOBUFS), or an event cannot be read (EINVAL, a ValueError of pyudev).
                # pyudev leaves the error ENOBUFS on the socket; getsockopt clears it.
                self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                received = True
                continue
            if event is None:
                break
            received = True
        return received
