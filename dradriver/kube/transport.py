"""HTTP to the API server: one session, raw bytes in and out, errors as `ApiError`, retries where safe.

What is sent again, always before a deadline:

| failure                                  | reads, repeatable writes | other writes |
|------------------------------------------|--------------------------|--------------|
| connection refused: nothing was sent     | yes                      | yes          |
| 429: the server did not look at it       | yes, after `Retry-After` | the same     |
| 401, once, with fresh credentials        | yes                      | yes          |
| 5xx, connection cut, no answer in time   | yes                      | no           |
| an answer that is too long               | no                       | no           |

Repeatable writes are those whose second run changes nothing that the first did not: server-side apply, and
a delete that names the UID. A create may have made an object whose name we don't know; a replace may have
moved the resource version: for these the caller looks first.
"""

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlencode

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.kube.connection import Connection
from dradriver.kube.errors import ApiError, TooLong, TooManyRequests, Unauthorized, Unavailable, error_from
from dradriver.kube.http import Answer, HttpConnection, TooLongError, head_of_request
from dradriver.kube.session import Session

__all__ = ["LONGEST_LIST", "LONGEST_OBJECT", "Request", "Transport"]

_CONNECT_SECONDS: Final = 5.0
_MAX_RETRY_AFTER: Final = 30.0

LONGEST_OBJECT: Final = 2**24
"""Bytes of an answer, and of a line of a watch. etcd takes 1.5 MiB, which in JSON is a few times as much."""
LONGEST_LIST: Final = 2**28
"""Bytes of a page of a list, and of a container's log."""
_LONGEST_ERROR: Final = 2**20


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
        longest: the longest answer that is read, in bytes.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = False
    longest: int = LONGEST_OBJECT

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """The session with one API server; close it when done.

    Attributes:
        user_agent: what it calls itself.

    Raises:
        DraError: the server's or its proxy's address can't be used.
    """

    def __init__(self, connection: Connection, user_agent: str, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        try:
            # The server limits us (429), a queue of our own would only hide it.
            self._session = Session(connection)
        except ValueError as error:
            raise DraError(f"{connection.source}: {error}") from None
        self.user_agent = user_agent
        self._headers = {
            "Host": self._session.host,
            "User-Agent": user_agent,
            "Accept": "application/json",
        }

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
        seconds = max(seconds, 0.1)
        try:
            async with (
                asyncio.timeout(seconds),
                self._open(request, seconds, {"Accept-Encoding": "gzip"}) as answer,
            ):
                return await answer.read(request.longest)
        except TimeoutError as error:
            raise self._unavailable(request, error, sent=True) from error

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Sends a request once and gives the chunks of the answer as they come (a watch).

        Args:
            request: the request.
            silence: seconds without a byte after which the connection counts as dead.

        Raises:
            ApiError: no success, or the connection broke later on.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(silence):
                    answer = await stack.enter_async_context(self._open(request, silence, {}))
            except TimeoutError as error:
                raise self._unavailable(request, error, sent=True) from error
            yield _heard(answer.chunks(), silence)

    @asynccontextmanager
    async def _open(
        self, request: Request, seconds: float, headers: Mapping[str, str]
    ) -> AsyncIterator[Answer]:
        """The answer, after its status was checked; every failure of the connection is `Unavailable`.

        How long the answer may take is the caller's to say.
        """
        head = await self._head(request, headers)
        connection = await self._connected(request, min(seconds, _CONNECT_SECONDS))
        usable = False
        try:
            answer = await connection.exchange(head, request.body or b"")
            if answer.status == 401:
                self._connection.credentials.expire()
            if answer.status >= 300:
                body = await _beginning(answer)
                usable = answer.leaves_connection_usable
                raise error_from(answer.status, body, str(request), answer.headers.get("retry-after", ""))
            yield answer
            usable = answer.leaves_connection_usable
        except TooLongError as error:
            raise TooLong(f"{request} at {self._connection.server}: {error}") from error
        except OSError as error:  # a TimeoutError is one
            raise self._unavailable(request, error, sent=True) from error
        finally:
            self._session.give(connection, usable=usable)

    async def _connected(self, request: Request, seconds: float) -> HttpConnection:
        try:
            return await self._session.take(seconds)
        except ssl.SSLError as error:
            # Waiting does not mend a certificate, so this is not `Unavailable`.
            at = f"{self._connection.server} ({self._connection.source})"
            raise ApiError(f"{request} at {at}: {error}") from error
        except OSError as error:
            raise self._unavailable(request, error, sent=False) from error

    async def _head(self, request: Request, headers: Mapping[str, str]) -> bytes:
        query = urlencode({key: value for key, value in request.query.items() if value}, quote_via=quote)
        all_headers = {**self._headers, **headers}
        if request.body is not None:
            all_headers |= {"Content-Type": request.content_type, "Content-Length": str(len(request.body))}
        if authorization := await self._connection.credentials.header():
            all_headers["Authorization"] = authorization
        target = self._session.target(request.path) + (f"?{query}" if query else "")
        try:
            return head_of_request(request.method, target, all_headers)
        except ValueError as error:
            raise DraError(f"{self._connection.source}: {error}") from None

    def _unavailable(self, request: Request, error: OSError, *, sent: bool) -> Unavailable:
        unavailable = Unavailable(f"{request} at {self._connection.server}: {_words(error)}")
        unavailable.sent = sent
        return unavailable


async def _beginning(answer: Answer) -> bytes:
    """The body of an error; of one that is too long only that it is."""
    try:
        return await answer.read(_LONGEST_ERROR)
    except TooLongError as error:
        return str(error).encode()


async def _heard(chunks: AsyncGenerator[bytes, None], silence: float) -> AsyncGenerator[bytes, None]:
    """The chunks; raises TimeoutError when none comes for `silence` seconds."""
    async with aclosing(chunks):
        while True:
            async with asyncio.timeout(silence):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk


def _words(error: OSError) -> str:
    """What went wrong with a connection, in the system's words where there are any."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return str(error)  # its number is OpenSSL's, not the system's
    number = error.errno
    if number is None and (first := re.search(r"\[Errno (\d+)\]", str(error))):
        number = int(first[1])  # asyncio tells of all addresses that it tried in one text
    if number is not None and number > 0:
        return os.strerror(number)
    # Below zero are the resolver's errors, which only know their own words.
    return error.strerror or str(error) or type(error).__name__


def _retry_wait(request: Request, error: ApiError, backoff: Backoff) -> float | None:
    """Seconds to wait before the request may be sent again, or None when it may not."""
    match error:
        case TooLong():
            return None
        case TooManyRequests():
            return max(backoff.next(), min(error.retry_after, _MAX_RETRY_AFTER))
        case Unavailable() if request.repeatable or not error.sent:
            return backoff.next()
        case _:
            return None
