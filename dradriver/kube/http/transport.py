"""Sends HTTP requests to the API server in one aiohttp session, and retries them where this is safe.

Bodies are bytes, and errors are `ApiError`. These requests are retried until a deadline:

| failure                                  | reads, repeatable writes | other writes |
|------------------------------------------|--------------------------|--------------|
| connection refused: nothing was sent     | yes                      | yes          |
| 429: the server did not process it       | yes, after `Retry-After` | yes          |
| 401, once, with fresh credentials        | yes                      | yes          |
| 5xx, connection cut, no answer in time   | yes                      | no           |
| an answer that is too long               | no                       | no           |

A write is repeatable if running it twice has the effect of running it once. Repeatable writes are a server-side
apply, and a delete with a UID. A create is not repeatable, because the first attempt may have created an object
with an unknown name. A replace is not repeatable, because the first attempt may have changed the resource
version. After a failed create or replace, the caller must read the object before another attempt.

aiohttp opens, keeps and checks the connections. Its cookies, redirects, decompression and retries are off.
"""

import asyncio
import io
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import ClientError, ClientResponse, ClientTimeout
from yarl import URL

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.kube.config.connection import Connection
from dradriver.kube.errors import ApiError, TooLong, TooManyRequests, Unauthorized, Unavailable, error_from
from dradriver.kube.http.answer import read_body
from dradriver.kube.http.network_errors import describe_failure, is_tls_failure, may_have_arrived
from dradriver.kube.http.request import Request, TooLongError, WriteGuard
from dradriver.kube.http.session import open_session

__all__ = ["Transport"]

_CONNECT_SECONDS: Final = 5.0
_SHORTEST_ATTEMPT: Final = 0.1
_CLOSE_SECONDS: Final = 1.0
_MAX_RETRY_AFTER: Final = 30.0
_MAX_ERROR_BYTES: Final = 2**20
_LARGE_BODY: Final = 2**20
"""Size in bytes from which a body is passed to aiohttp as a file. aiohttp sends a file in parts."""


class Transport:
    """The session with one API server. It must be created inside a running event loop and closed by the caller.

    Attributes:
        user_agent: the value of the `User-Agent` header.

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
        """Close all connections. Running watches raise `Unavailable`."""
        for answer in list(self._answers):
            answer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._session.close()
        except TimeoutError:
            pass  # a server that no longer reads must not delay the close

    async def request(self, request: Request, guard: WriteGuard | None = None) -> bytes:
        """Send a request and return the answer's body. The table of this module lists the retries.

        Args:
            request: the request.
            guard: guards each attempt. None: only the time for all attempts is limited.

        Raises:
            ApiError: the last attempt failed.
        """
        deadline = time.monotonic() + self._timeout
        backoff = Backoff(0.05, 2.0)
        has_new_credentials = False
        while True:
            seconds = max(deadline - time.monotonic(), _SHORTEST_ATTEMPT)
            try:
                if guard is None:
                    return await self._send_once(request, seconds)
                with guard() as allowed:
                    seconds = min(seconds, allowed)
                    return await self._send_once(_limit_on_server(request, seconds), seconds)
            except Unauthorized:
                if has_new_credentials:
                    raise
                has_new_credentials = True
            except ApiError as error:
                wait = _retry_wait(request, error, backoff)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)

    async def _send_once(self, request: Request, seconds: float) -> bytes:
        timeout = ClientTimeout(connect=min(seconds, _CONNECT_SECONDS))
        try:
            async with (
                asyncio.timeout(seconds),
                self._open(request, timeout, {"Accept-Encoding": "gzip"}) as answer,
            ):
                return await read_body(answer, request.max_bytes)
        except TimeoutError as error:
            raise self._failure(request, error) from error

    @asynccontextmanager
    async def stream(self, request: Request, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request once and yield the chunks of the answer as they arrive (a watch).

        Args:
            request: the request.
            idle_seconds: maximum seconds without a byte. After them the connection counts as dead.

        Raises:
            ApiError: the server rejected the request, or the connection broke later.
        """
        timeout = ClientTimeout(connect=min(idle_seconds, _CONNECT_SECONDS), sock_read=idle_seconds)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(idle_seconds):
                    answer = await stack.enter_async_context(self._open(request, timeout, {}))
            except TimeoutError as error:
                raise self._failure(request, error) from error
            yield answer.content.iter_any()

    @asynccontextmanager
    async def _open(
        self, request: Request, timeout: ClientTimeout, headers: Mapping[str, str]
    ) -> AsyncGenerator[ClientResponse, None]:
        """Check the status of the answer and yield the answer. A failed connection raises `Unavailable`.

        The caller must limit the time for the whole answer.
        """
        try:
            answer = await self._send(request, timeout, headers)
            self._answers.add(answer)
            try:
                if answer.status == 401:
                    self._connection.credentials.expire()
                if not 200 <= answer.status < 300:
                    body = await _read_error_body(answer)
                    retry_after = answer.headers.get("Retry-After", "")
                    raise error_from(answer.status, body, str(request), retry_after)
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
                raise DraError(f"{self._connection.source}: header {name}: contains unprintable characters")
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
        if is_tls_failure(error):
            # The error is not `Unavailable`, because a retry can't repair a certificate.
            at = f"{self._connection.server} ({self._connection.source})"
            return ApiError(f"{request} at {at}: {describe_failure(error)}")
        unavailable = Unavailable(f"{request} at {self._connection.server}: {describe_failure(error)}")
        unavailable.sent = may_have_arrived(error)
        return unavailable


def _limit_on_server(request: Request, seconds: float) -> Request:
    """Return a request that the server gives up after this time, so that it does not store a write later.

    Source: `WithRequestDeadline` of `k8s.io/apiserver/pkg/endpoints/filters`. The server counts the time from
    the arrival of the request.
    """
    milliseconds = max(1, int(seconds * 1000))  # 0 would be the server's default
    return replace(request, query={**request.query, "timeout": f"{milliseconds}ms"})


async def _read_error_body(answer: ClientResponse) -> bytes:
    """Return the body of an error answer, or a message if the body is too long."""
    try:
        return await read_body(answer, _MAX_ERROR_BYTES)
    except TooLongError as error:
        return str(error).encode()


def _retry_wait(request: Request, error: ApiError, backoff: Backoff) -> float | None:
    """Return the seconds to wait before a retry; None if the request must not be retried."""
    match error:
        case TooLong():
            return None
        case TooManyRequests():
            return max(backoff.next(), min(error.retry_after, _MAX_RETRY_AFTER))
        case Unavailable() if request.repeatable or not error.sent:
            return backoff.next()
        case _:
            return None
