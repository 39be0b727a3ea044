"""The aiohttp session with one API server, and the reasons for its settings."""

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
"""kube-apiserver closes a connection that was idle for 90 s. No request may be sent on it at that moment."""
_LONGEST_LINE: Final = 2**16
_MOST_UNREAD: Final = 2**18
"""Bytes of a body that are buffered for the reader before the server has to wait."""


def open_session(connection: Connection) -> ClientSession:
    """Return a session. Sends nothing.

    Args:
        connection: the server, its TLS settings and its proxy.

    Returns:
        A session, which the caller must close.

    Raises:
        ValueError: the address of the server or of the proxy is not a usable URL.
    """
    _check(connection.server, ("http", "https"))
    if connection.proxy:
        _check(connection.proxy, ("http",))
    return ClientSession(
        connector=_Connector(
            limit=0,  # the server limits the rate (429); a queue here would only hide that
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
        read_bufsize=_MOST_UNREAD,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
        middlewares=[_send_once],
    )


class _Connector(TCPConnector):
    """A connection pool that skips connections on which the server sent unexpected bytes.

    aiohttp's own pool would read those bytes as the answer to the next request (for example, a late 408).
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


async def _send_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Send a request without aiohttp's own retry.

    aiohttp repeats GET, PUT and DELETE on a new connection when an idle one turns out to be closed. The
    transport decides which requests are repeatable, and a replace is not.
    """
    try:
        return await handler(request)
    except ClientConnectorError:
        raise  # nothing was sent, and aiohttp does not retry
    except (ClientOSError, ServerDisconnectedError) as error:
        raise CutError(str(error)) from error


def _check(url: str, schemes: tuple[str, ...]) -> None:
    try:
        parsed = URL(url)
        usable = parsed.scheme in schemes and bool(parsed.host)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{url} is no URL that begins with {' or '.join(f'{each}://' for each in schemes)}")


def _open_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket with TCP keepalive: a watch sends nothing that would reveal a dead peer."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made
