"""Opens the aiohttp session with one API server, and explains its settings."""

import socket
from typing import Final

from aiohttp import (
    AddrInfoType,
    ClientConnectionError,
    ClientConnectorError,
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
    ThreadedResolver,
)
from aiohttp.connector import Connection as PooledConnection
from aiohttp.tracing import Trace
from yarl import URL

from dradriver.kube.config.connection import Connection

__all__ = ["open_session"]

_IDLE_SECONDS: Final = 60.0
"""Connections that are idle for so long are closed, before kube-apiserver closes them after 90 s."""
_MAX_LINE_BYTES: Final = 2**16
_MAX_UNREAD_BYTES: Final = 2**18
"""Maximum number of unread bytes of a body in the buffer. The server waits while the buffer is full."""


def open_session(connection: Connection) -> ClientSession:
    """Return a session. This sends nothing.

    Args:
        connection: the server, its TLS settings and its proxy.

    Returns:
        The session. The caller must close it.

    Raises:
        ValueError: the address of the server or of the proxy is not a usable URL.
    """
    _check_url(connection.server, ("http", "https"))
    if connection.proxy:
        _check_url(connection.proxy, ("http",))
    return ClientSession(
        connector=_Connector(
            limit=0,  # the server limits the rate (429), and a queue here would hide this
            keepalive_timeout=_IDLE_SECONDS,
            use_dns_cache=False,
            resolver=ThreadedResolver(),  # the system's resolver, even where aiodns is installed
            socket_factory=_open_socket,
            ssl=connection.tls or True,
        ),
        proxy=connection.proxy,
        timeout=ClientTimeout(),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=["Accept-Encoding", "Content-Type"],
        read_bufsize=_MAX_UNREAD_BYTES,
        max_line_size=_MAX_LINE_BYTES,
        max_field_size=_MAX_LINE_BYTES,
        middlewares=[_send_without_retry],
    )


class _Connector(TCPConnector):
    """A connection pool that does not reuse a connection on which the server sent unexpected bytes.

    aiohttp's own pool would read the unexpected bytes, such as a late 408, as the answer to the next request.
    """

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> PooledConnection:
        """Return a connection from the pool, or a new one."""
        while True:
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()


class CutError(ClientConnectionError):
    """The connection was cut after the request was sent. The exception's cause has the details."""


async def _send_without_retry(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Send a request without aiohttp's own retry.

    If an idle connection turns out to be closed, aiohttp repeats GET, PUT and DELETE on a new connection. But a
    replace (PUT) is not repeatable, so `transport` decides which requests are repeated.
    """
    try:
        return await handler(request)
    except ClientConnectorError:
        raise  # nothing was sent, and aiohttp does not retry
    except (ClientOSError, ServerDisconnectedError) as error:
        raise CutError(str(error)) from error


def _check_url(url: str, schemes: tuple[str, ...]) -> None:
    try:
        parsed = URL(url)
        is_usable = parsed.scheme in schemes and bool(parsed.host)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ValueError(f"{url}: must be a URL that starts with {' or '.join(f'{s}://' for s in schemes)}")


def _open_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket with TCP keepalive, because a watch sends nothing and would not detect a dead server."""
    family, kind, protocol, _, _ = address
    new_socket = socket.socket(family, kind, protocol)
    new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return new_socket
