"""Uevents through libudev: that something became of a device. What, is read from sysfs."""

import os
import select
import socket
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import NotSupportedError

__all__ = ["Uevents"]

_SUBSYSTEMS: Final = ("fpga_manager", "fpga_region", "fpga_bridge", "platform", "dfl", "pci", "drm")
_MOST: Final = 512
"""Events that are taken off the queue at once: a storm shall not keep anybody from looking."""


class Uevents:
    """A subscription to the uevents that may concern FPGAs, from its making on.

    The kernel tells of devices itself; where udevd runs, it tells of them after it has made their nodes, and is
    listened to instead. The queue is bounded, and what does not fit is lost: then `wait` answers yes.

    Args:
        udev_control: the socket of udevd.

    Raises:
        NotSupportedError: libudev or `pyudev` is missing, or the kernel lets nobody listen.
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
            raise NotSupportedError(f"there are no uevents: {error} (they need libudev and pyudev)") from error
        self._monitor = monitor
        self._socket = socket.socket(fileno=os.dup(monitor.fileno()))

    def close(self) -> None:
        """Ends the subscription."""
        self._socket.close()
        del self._monitor

    def wait(self, timeout: float) -> bool:
        """Whether something happened since the last call, waiting `timeout` seconds for it."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(timeout * 1000):
            return False
        heard = False
        for _ in range(_MOST):
            try:
                event = self._monitor.poll(timeout=0)
            except (OSError, ValueError):
                # Events were lost (ENOBUFS), or one can't be read (EINVAL, a ValueError of pyudev's). pyudev
                # leaves the former at the socket; asking takes it away.
                self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                heard = True
                continue
            if event is None:
                break
            heard = True
        return heard
