"""Which hosts only processes of the same machine can reach."""

import ipaddress

__all__ = ["is_loopback"]


def is_loopback(host: str) -> bool:
    """Return whether only processes of the same machine or pod can reach a host.

    Args:
        host: a host name or an address, without brackets. Empty: all addresses.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
