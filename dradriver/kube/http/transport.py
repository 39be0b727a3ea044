"""HTTP to the API server: one aiohttp session, raw bytes in and out, errors as `ApiError`, retries where safe.

These requests are retried, always before a deadline:

| failure                                  | reads, repeatable writes | other writes |
|------------------------------------------|--------------------------|--------------|
| connection refused: nothing was sent     | yes                      | yes          |
| 429: the server did not process it       | yes, after `Retry-After` | the same     |
| 401, once, with fresh credentials        | yes                      | yes          |
| 5xx, connection cut, no answer in time   | yes                      | no           |
| an answer that is too long               | no                       | no           |

A write is repeatable if a second run changes nothing that the first did not. These are server-side apply, and a
delete that names the UID. A create may have made an object with an unknown name, and a replace may have changed
the resource version. After a failed create or replace, the caller must read the object first.

aiohttp opens, keeps and checks the connections. Its features for web pages are off: cookies, redirects,
decompression, retries.
"""

import asyncio
import io
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import ClientError, ClientResponse, ClientTimeout
from yarl import URL

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.kube.config.connection import Connection
from dradriver.kube.errors import ApiError, TooLong, TooManyRequests, Unauthorized, Unavailable, error_from
from dradriver.kube.http.answer import read_body
from dradriver.kube.http.network_errors import failed_handshake, may_have_arrived, words
from dradriver.kube.http.request import Request, TooLongError
from dradriver.kube.http.session import open_session

__all__ = ["Transport"]

_CONNECT_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 1.0
_MAX_RETRY_AFTER: Final = 30.0
_LONGEST_ERROR: Final = 2**20
_LARGE_BODY: Final = 2**20
"""Size in bytes from which a body is passed as a file, so that aiohttp sends it in parts."""


class Transport:
    """The session with one API server. Create it inside a running loop, and close it when done.

    Attributes:
        user_agent: the name that the session sends.

    Raises:
        DraError: the address of the server or its proxy is not usable.
    """

    def __init__(self, connection: Connection, user_agent: str, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        try:
            self._session = open_session(connection)
        except ValueError as error:
            raise DraError(f"{connection.source}: {error}") from None
        self._answers: set[ClientResponse] = set()
        self.user_agent = user_agent
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}

    async def close(self) -> None:
        """Close all connections. Running watches end with `Unavailable`."""
        for answer in list(self._answers):
            answer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._session.close()
        except TimeoutError:
            pass  # a peer that no longer reads must not delay the close

    async def request(self, request: Request) -> bytes:
        """Send a request, with retries as in the table above, and return the answer's body.

        Raises:
            ApiError: the last answer, if it was not a success.
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
        timeout = ClientTimeout(connect=min(seconds, _CONNECT_SECONDS))
        try:
            async with (
                asyncio.timeout(seconds),
                self._open(request, timeout, {"Accept-Encoding": "gzip"}) as answer,
            ):
                return await read_body(answer, request.longest)
        except TimeoutError as error:
            raise self._failure(request, error) from error

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request once and yield the chunks of the answer as they arrive (a watch).

        Args:
            request: the request.
            silence: seconds without a byte after which the connection counts as dead.

        Raises:
            ApiError: the server refused, or the connection broke later.
        """
        timeout = ClientTimeout(connect=min(silence, _CONNECT_SECONDS), sock_read=silence)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(silence):
                    answer = await stack.enter_async_context(self._open(request, timeout, {}))
            except TimeoutError as error:
                raise self._failure(request, error) from error
            yield answer.content.iter_any()

    @asynccontextmanager
    async def _open(
        self, request: Request, timeout: ClientTimeout, headers: Mapping[str, str]
    ) -> AsyncGenerator[ClientResponse, None]:
        """Yield the answer after checking its status. Every failure of the connection is `Unavailable`.

        The caller limits the time of the whole answer.
        """
        try:
            answer = await self._send(request, timeout, headers)
            self._answers.add(answer)
            try:
                if answer.status == 401:
                    self._connection.credentials.expire()
                if not 200 <= answer.status < 300:
                    body = await _beginning(answer)
                    again = answer.headers.get("Retry-After", "")
                    raise error_from(answer.status, body, str(request), again)
                yield answer
            finally:
                self._answers.discard(answer)
                answer.close()  # returns the connection to the pool if the body was read completely
        except TooLongError as error:
            raise TooLong(f"{request} at {self._connection.server}: {error}") from error
        except (ClientError, OSError) as error:  # a TimeoutError is an OSError
            raise self._failure(request, error) from error

    async def _send(
        self, request: Request, timeout: ClientTimeout, headers: Mapping[str, str]
    ) -> ClientResponse:
        query = urlencode({key: value for key, value in request.query.items() if value}, quote_via=quote)
        all_headers = {**self._headers, **headers}
        if request.body is not None:
            all_headers["Content-Type"] = request.content_type
        if authorization := await self._connection.credentials.header():
            all_headers["Authorization"] = authorization
        for name, value in all_headers.items():
            if not value.isprintable():
                raise DraError(
                    f"{self._connection.source}: the header {name} holds characters that can't be sent"
                )
        url = f"{self._connection.server}{request.path}{'?' if query else ''}{query}"
        large = request.body is not None and len(request.body) >= _LARGE_BODY
        return await self._session.request(
            request.method,
            URL(url, encoded=True).with_user(None),
            data=io.BytesIO(request.body or b"") if large else request.body,
            headers=all_headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self._connection.server_hostname,
        )

    def _failure(self, request: Request, error: Exception) -> ApiError:
        if failed_handshake(error):
            # A retry can't repair a certificate, so this is not `Unavailable`.
            at = f"{self._connection.server} ({self._connection.source})"
            return ApiError(f"{request} at {at}: {words(error)}")
        unavailable = Unavailable(f"{request} at {self._connection.server}: {words(error)}")
        unavailable.sent = may_have_arrived(error)
        return unavailable


async def _beginning(answer: ClientResponse) -> bytes:
    """Return the body of an error, or a remark if it is too long."""
    try:
        return await read_body(answer, _LONGEST_ERROR)
    except TooLongError as error:
        return str(error).encode()


def _retry_wait(request: Request, error: ApiError, backoff: Backoff) -> float | None:
    """Return the seconds to wait before the retry of a request, or None if it must not be retried."""
    match error:
        case TooLong():
            return None
        case TooManyRequests():
            return max(backoff.next(), min(error.retry_after, _MAX_RETRY_AFTER))
        case Unavailable() if request.repeatable or not error.sent:
            return backoff.next()
        case _:
            return None
