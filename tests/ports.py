"""Ports for servers that must know theirs before they listen."""

import socket

__all__ = ["reserve_port"]


def reserve_port(host: str = "127.0.0.1") -> int:
    """Return a port that the kernel gives to no other socket before this process ends.

    A socket that does not listen stays bound to it. Servers can listen beside it, again and again, if they set
    `SO_REUSEADDR`, as asyncio and Go do.

    Args:
        host: address of this machine.

    Raises:
        OSError: this machine does not have the address.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, 0))
        port = int(reserved.getsockname()[1])
        reserved.detach()
    return port
