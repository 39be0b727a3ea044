"""The open HTTP connections to one API server: made when needed, kept for a while, never queued for."""

import asyncio
import base64
import socket
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from aiohappyeyeballs import start_connection

from dradriver.kube.connection import Connection
from dradriver.kube.http import HttpConnection, head_of_request

__all__ = ["Session"]

_IDLE_SECONDS: Final = 60.0
"""kube-apiserver closes a connection that was idle for 90 s; a request must not meet that."""
_HAPPY_EYEBALLS_SECONDS: Final = 0.25
_OPENING_SECONDS: Final = 0.25
"""At the end a connection that is just being made gets this long."""
_LONGEST_HEAD: Final = 2**14
_PORTS: Final = {"http": 80, "https": 443}


class Session:
    """Connections to one server; `close()` when done.

    Args:
        at: the server, TLS, and a proxy on the way.

    Raises:
        ValueError: the server's or the proxy's address is no URL that can be used.
    """

    def __init__(self, at: Connection) -> None:
        self._at = at
        self._url = _split(at.server, ("http", "https"))
        self._proxy = _split(at.proxy, ("http",)) if at.proxy else None
        self._idle: list[HttpConnection] = []
        self._all: set[HttpConnection] = set()
        self._opening: set[asyncio.Task[HttpConnection]] = set()
        self._closed = False
        self.host = self._url.netloc.rpartition("@")[2]
        """The `Host` header."""

    def target(self, path: str) -> str:
        """What the request line has for a path below the server's URL."""
        target = self._url.path + path
        return f"http://{self.host}{target}" if self._proxy and self._url.scheme == "http" else target

    async def take(self, seconds: float) -> HttpConnection:
        """A connection that nobody uses; it belongs to the caller until `give`.

        Raises:
            OSError: the server can't be reached.
            TimeoutError: not within `seconds`.
            ssl.SSLError: one side does not accept the other's certificate.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.is_usable:
                return connection
            self._cut(connection)
        # A task of its own, because asyncio loses the socket of a connection whose making is cancelled at the
        # wrong moment, and the server waits a minute for the rest of the handshake.
        opening = asyncio.create_task(self._open_within(seconds), name="connect")
        self._opening.add(opening)
        try:
            connection = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._keep)
            raise
        finally:
            opening.add_done_callback(self._opening.discard)
        return connection

    def give(self, connection: HttpConnection, *, usable: bool) -> None:
        """The caller needs the connection no more."""
        if usable and not self._closed and connection.is_usable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            self._cut(connection)

    async def close(self) -> None:
        """Cuts all connections, those in use too."""
        self._closed = True
        if opening := set(self._opening):
            await asyncio.wait(opening, timeout=_OPENING_SECONDS)
            for task in opening:
                task.cancel()
            await asyncio.wait(opening)
        for connection in list(self._all):
            self._cut(connection)
        await asyncio.sleep(0)  # the transports end in the loop's next round

    def _keep(self, opening: asyncio.Task[HttpConnection]) -> None:
        """Who wanted the connection has gone: it is for the next one."""
        if not opening.cancelled() and opening.exception() is None:
            self.give(opening.result(), usable=True)

    def _cut(self, connection: HttpConnection) -> None:
        self._all.discard(connection)
        connection.cut()

    async def _open_within(self, seconds: float) -> HttpConnection:
        async with asyncio.timeout(seconds):
            connection = await self._open()
        self._all.add(connection)
        return connection

    async def _open(self) -> HttpConnection:
        host, port = self._url.hostname or "", self._url.port or _PORTS[self._url.scheme]
        tls = self._at.tls if self._url.scheme == "https" else None
        reached = await _reach(self._proxy or self._url)
        try:
            if self._proxy is not None and tls is not None:
                await _tunnel(reached, self._proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpConnection,
                ssl=tls,
                server_hostname=(self._at.server_hostname or host) if tls else None,
                sock=reached,
            )
        except BaseException:
            reached.close()
            raise
        return connection


def _split(url: str, schemes: tuple[str, ...]) -> SplitResult:
    split = urlsplit(url)
    if split.scheme not in schemes or not split.hostname:
        raise ValueError(f"{url} is no URL that begins with {' or '.join(f'{each}://' for each in schemes)}")
    return split


async def _reach(url: SplitResult) -> socket.socket:
    """A connected socket; of several addresses the first that answers."""
    port = url.port or _PORTS[url.scheme]
    found = await asyncio.get_running_loop().getaddrinfo(url.hostname or "", port, type=socket.SOCK_STREAM)
    reached = await start_connection(found, happy_eyeballs_delay=_HAPPY_EYEBALLS_SECONDS)
    # Makes the kernel notice a peer that is gone without a word: a watch sends nothing that would.
    reached.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return reached


async def _tunnel(reached: socket.socket, proxy: SplitResult, authority: str) -> None:
    """Makes the proxy on the other side connect with the server."""
    headers = {"Host": authority}
    if proxy.username:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    await asyncio.get_running_loop().sock_sendall(reached, head_of_request("CONNECT", authority, headers))
    _check_tunnel(await _head_of_answer(reached), f"proxy {proxy.hostname}", authority)


async def _head_of_answer(tunnel: socket.socket) -> bytes:
    """What the proxy says, byte by byte: what follows belongs to TLS."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _LONGEST_HEAD:
        byte = await asyncio.get_running_loop().sock_recv(tunnel, 1)
        if not byte:
            break
        head += byte
    return head


def _check_tunnel(head: bytes, proxy: str, authority: str) -> None:
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    if line.split(" ")[1:2] != ["200"]:
        raise ConnectionError(
            f"{proxy} does not connect to {authority}: {line[:80] or 'it closed the connection'}"
        )
