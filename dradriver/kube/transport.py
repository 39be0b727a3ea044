"""HTTP to the API server: one session, raw bytes in and out, errors as `ApiError`, retries where safe.

What is sent again, always before a deadline:

| failure                                  | reads, repeatable writes | other writes |
|------------------------------------------|--------------------------|--------------|
| connection refused: nothing was sent     | yes                      | yes          |
| 429: the server did not look at it       | yes, after `Retry-After` | the same     |
| 401, once, with fresh credentials        | yes                      | yes          |
| 5xx, connection cut, no answer in time   | yes                      | no           |

Repeatable writes are those whose second run changes nothing that the first did not: server-side apply, and
a delete that names the UID. A create may have made an object whose name we don't know; a replace may have
moved the resource version: for these the caller looks first. (aiohttp itself repeats a PUT or DELETE at
once, one time, when its connection closes without an answer; resource version and UID make that second one
a conflict.)
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dradriver.kube.backoff import Backoff
from dradriver.kube.connection import Connection
from dradriver.kube.errors import ApiError, TooManyRequests, Unauthorized, Unavailable, error_from

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Request", "Transport"]

_CONNECT_SECONDS: Final = 5.0
_MAX_RETRY_AFTER: Final = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request.

    Attributes:
        method: GET, POST, PUT, PATCH, DELETE.
        path: the URL path, already quoted.
        query: the query's fields; empty values are left out.
        body: the JSON text.
        content_type: the body's type.
        repeatable: whether it may be sent again although it may have arrived.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """The session with one API server; close it when done."""

    def __init__(self, connection: Connection, user_agent: str, timeout: float) -> None:
        import aiohttp  # noqa: PLC0415 - a sixth of a second that other commands need not wait

        self._aiohttp = aiohttp
        self._connection = connection
        self._timeout = timeout
        self._session = aiohttp.ClientSession(
            # The server limits us (429), a queue of our own would only hide it.
            connector=aiohttp.TCPConnector(ssl=connection.tls or False, limit=0),
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            read_bufsize=2**21,
        )

    async def close(self) -> None:
        """Closes all connections; running watches end with `Unavailable`."""
        await self._session.close()

    async def request(self, request: Request) -> bytes:
        """Sends a request and returns the answer's body, sending again as the table above says.

        Raises:
            ApiError: the last answer, when it was not a success.
        """
        deadline = time.monotonic() + self._timeout
        backoff = Backoff(0.05, 2.0)
        renewed = False
        while True:
            try:
                return await self._once(request, deadline - time.monotonic())
            except Unauthorized:
                if renewed:
                    raise
                renewed = True
            except ApiError as error:
                wait = _retry_wait(request, error, backoff)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)

    async def _once(self, request: Request, seconds: float) -> bytes:
        timeout = self._aiohttp.ClientTimeout(total=max(seconds, 0.1), sock_connect=_CONNECT_SECONDS)
        async with self._open(request, timeout) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Sends a request once and gives the chunks of the answer as they come (a watch).

        Args:
            request: the request.
            silence: seconds without a byte after which the connection counts as dead.

        Raises:
            ApiError: no success, or the connection broke later on.
        """
        timeout = self._aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence)
        async with self._open(request, timeout) as response:
            _keep_alive(response)
            yield response.content.iter_any()

    @asynccontextmanager
    async def _open(
        self, request: Request, timeout: "aiohttp.ClientTimeout"
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        """The response, after its status was checked; every failure of the connection is `Unavailable`."""
        connection, http = self._connection, self._aiohttp
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        if authorization := await connection.credentials.header():
            headers["Authorization"] = authorization
        try:
            async with self._session.request(
                request.method,
                connection.server + request.path,
                params={key: value for key, value in request.query.items() if value},
                data=request.body,
                headers=headers,
                timeout=timeout,
                proxy=connection.proxy,
                server_hostname=connection.server_hostname,
            ) as response:
                if response.status == 401:
                    connection.credentials.expire()
                if response.status >= 300:
                    body = await response.read()
                    retry_after = response.headers.get("Retry-After", "")
                    raise error_from(response.status, body, str(request), retry_after)
                yield response
        except http.ClientSSLError as error:
            # Waiting does not mend a certificate, so this is not `Unavailable`.
            raise ApiError(f"{request} at {connection.server} ({connection.source}): {error}") from error
        except (http.ClientConnectorError, http.ConnectionTimeoutError) as error:
            raise self._unavailable(request, error, sent=False) from error
        except (http.ClientError, TimeoutError, OSError) as error:
            raise self._unavailable(request, error, sent=True) from error

    def _unavailable(self, request: Request, error: Exception, *, sent: bool) -> Unavailable:
        unavailable = Unavailable(f"{request} at {self._connection.server}: {_words(error)}")
        unavailable.sent = sent
        return unavailable


def _words(error: Exception) -> str:
    """What went wrong with a connection, in the system's words where there are any."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    cause = getattr(error, "os_error", None)
    if isinstance(cause, OSError) and cause.errno:
        # Below zero are the resolver's errors, which only know their own words.
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return str(error) or type(error).__name__


def _retry_wait(request: Request, error: ApiError, backoff: Backoff) -> float | None:
    """Seconds to wait before the request may be sent again, or None when it may not."""
    match error:
        case TooManyRequests():
            return max(backoff.next(), min(error.retry_after, _MAX_RETRY_AFTER))
        case Unavailable() if request.repeatable or not error.sent:
            return backoff.next()
        case _:
            return None


def _keep_alive(response: "aiohttp.ClientResponse") -> None:
    """Makes the kernel notice a peer that is gone without a word; a watch sends nothing that would."""
    transport = response.connection.transport if response.connection else None
    sock: socket.socket | None = transport.get_extra_info("socket") if transport else None
    if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
