"""Uevents of the kernel without devices: any process may send them into a network namespace of its own."""

import errno
import os
import socket
import struct
from typing import Final

_NETLINK_KOBJECT_UEVENT: Final = 15
_HEADER: Final = struct.Struct("=IHHII")
_ANSWER: Final = struct.Struct("=IHHIIi")
_MESSAGE: Final = 16  # the first type that is no control message
_REQUEST_AND_ACK: Final = 5


class Uevents:
    """Sends uevents, which the kernel numbers and hands to all who listen in this network namespace."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_KOBJECT_UEVENT)

    def send(self, action: str, device: str, subsystem: str) -> None:
        """Tells of a device by its path below /sys.

        Raises:
            PermissionError: this process does not own the network namespace.
        """
        words = (f"{action}@/{device}", f"ACTION={action}", f"DEVPATH=/{device}", f"SUBSYSTEM={subsystem}")
        payload = "".join(f"{word}\0" for word in words).encode()
        self._socket.send(_HEADER.pack(_HEADER.size + len(payload), _MESSAGE, _REQUEST_AND_ACK, 0, 0) + payload)
        *_, answer = _ANSWER.unpack_from(self._socket.recv(4096))
        # The kernel hands on what a listener had no room for as an error of the sender's.
        if answer not in {0, -errno.ENOBUFS}:
            raise PermissionError(-answer, os.strerror(-answer))

    def close(self) -> None:
        self._socket.close()
