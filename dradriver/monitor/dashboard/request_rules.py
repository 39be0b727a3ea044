"""Decides which requests are answered, and the headers of the answers."""

from collections.abc import Mapping
from typing import Final

from dradriver.http_server.hosts import is_loopback

__all__ = ["HEADERS", "METHODS", "find_token", "is_own_host"]

METHODS: Final = frozenset({"GET", "HEAD"})
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The page loads scripts, styles and data only from its own server, and no other page can embed it."""
_SCHEME: Final = "bearer "


def is_own_host(header: str) -> bool:
    """Return whether the header `Host` names the loopback interface.

    A web page of another site can give its own name the address 127.0.0.1 (DNS rebinding). The browser then
    sends that name.

    Args:
        header: value of the header, with or without a port.
    """
    if header.startswith("["):
        name = header[1:].partition("]")[0]
    else:
        name = header.rpartition(":")[0] if header.count(":") == 1 else header
    return is_loopback(name.lower())


def find_token(authorization: str) -> str:
    """Return the bearer token of a request; empty if there is none.

    Args:
        authorization: value of the header `Authorization`.
    """
    if not authorization.lower().startswith(_SCHEME):
        return ""
    return authorization[len(_SCHEME) :].strip()
