"""The aiohttp session with one API server: which of aiohttp's settings are ours, and why."""

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
"""kube-apiserver closes a connection that was idle for 90 s; a request must not meet that."""
_LONGEST_LINE: Final = 2**16
_MOST_UNREAD: Final = 2**18
"""Bytes of a body that wait for their reader before the server has to wait."""


def open_session(connection: Connection) -> ClientSession:
    """Makes the session; nothing is sent yet.

    Args:
        connection: the server, TLS, and a proxy on the way.

    Returns:
        A session that belongs to the caller, who closes it.

    Raises:
        ValueError: the server's or the proxy's address is no URL that can be used.
    """
    _check(connection.server, ("http", "https"))
    if connection.proxy:
        _check(connection.proxy, ("http",))
    return ClientSession(
        connector=_Connector(
            limit=0,  # the server limits us (429); a queue of our own would only hide that
            keepalive_timeout=_IDLE_SECONDS,
            use_dns_cache=False,
            resolver=ThreadedResolver(),  # the system's resolver, also where aiodns is installed
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
    """A pool that gives no connection on which the server sent something unasked.

    aiohttp's own pool would take that for the answer to the next request (a late 408, for example).
    """

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> PooledConnection:
        """A connection from the pool, or a new one."""
        while True:
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()


class CutError(ClientConnectionError):
    """The connection was cut after the request was sent; the cause tells how."""


async def _send_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Keeps aiohttp from sending a request again.

    aiohttp repeats GET, PUT and DELETE on a new connection after an idle one turned out to be cut. Which
    requests may be repeated is the transport's decision, and a replace is not among them.
    """
    try:
        return await handler(request)
    except ClientConnectorError:
        raise  # nothing was sent, and aiohttp does not repeat it
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
    """A socket on which the kernel notices a peer that is gone: a watch sends nothing that would."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made
