"""Resolves names of servers, and rejects addresses at which no server of bitstreams can be.

The operator allows names of servers, not addresses. Whoever controls the DNS of such a name could otherwise
make the driver call services that trust the node, such as the metadata service of a cloud (169.254.169.254).
"""

import errno
import ipaddress
import socket
from collections.abc import Iterable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["CheckedResolver", "is_usable"]


def is_usable(address: str) -> bool:
    """Return whether a server can have this address: not a link-local, multicast or unspecified one.

    Args:
        address: an IPv4 or IPv6 address.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    found = mapped or parsed
    return not (found.is_link_local or found.is_multicast or found.is_unspecified)


class CheckedResolver(AbstractResolver):
    """Resolves names like aiohttp. A name with an unusable address is not resolved.

    aiohttp does not resolve the host of a URL if it is an address. The operator has then allowed this address.

    Args:
        resolver: resolves the names; None: the resolver of this host.
    """

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        self._resolver = resolver or aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises:
            OSError: the name does not exist, or has an unusable address.
        """
        found = await self._resolver.resolve(host, port, family)
        if rejected := _find_unusable(found):
            rule = "link-local, multicast and unspecified addresses are not allowed"
            raise OSError(errno.EACCES, f"{host} has the address {rejected}: {rule}")
        return found

    async def close(self) -> None:
        """Close the resolver of this host."""
        await self._resolver.close()


def _find_unusable(found: Iterable[ResolveResult]) -> str:
    return next((each["host"] for each in found if not is_usable(each["host"])), "")
