"""HTTP/1.1 on one connection: how a request is written, and its answer as it comes.

llhttp reads what comes (`httptools`), right where asyncio hands it over. Around it stands no general client,
because every driver process would pay for one: a tenth of a second at start, 10 MiB of memory, and twice the
time for each claim that is looked up. It speaks what API servers and the proxies before them speak: no
redirects, no cookies, no trailers that mean anything.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Mapping
from typing import Final, cast

from httptools import HttpParserError, HttpResponseParser

__all__ = ["Answer", "HttpConnection", "TooLongError", "head_of_request"]

_LONGEST_HEAD: Final = 2**16
_MOST_UNREAD: Final = 2**18
"""Bytes of a body that wait for their reader before the other side has to wait."""
_GZIP: Final = 16 + zlib.MAX_WBITS


class TooLongError(OSError):
    """What was sent is longer than the reader takes.

    Args:
        what: what it is.
        most: the longest in bytes.
    """

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} is longer than {most / 2**20:g} MiB")


def head_of_request(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The lines before the body.

    Raises:
        ValueError: a value would end its line.
    """
    for name, value in headers.items():
        if not value.isprintable():
            raise ValueError(f"the header {name} holds characters that can't be sent")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


class Answer:
    """The answer to one request; its body is read once.

    Attributes:
        status: the HTTP status.
        headers: by name in lower case.
    """

    def __init__(
        self, connection: "HttpConnection", status: int, headers: Mapping[str, str], *, stays: bool
    ) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        self._stays = stays
        self._complete = False

    @property
    def leaves_connection_usable(self) -> bool:
        """Whether the body was read to its end, and the server wants more requests on the connection."""
        return self._complete and self._stays

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing else says where the body ends."""
        framed = (
            "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        )
        return not framed and self.status not in {204, 304}

    async def read(self, most: int) -> bytes:
        """The whole body, unpacked.

        Args:
            most: the longest body that is read, in bytes; as it comes, and unpacked.

        Raises:
            TooLongError: it is longer.
            OSError: the connection broke, or what came is no HTTP.
        """
        parts: list[bytes] = []
        unpacker = _Unpacker(packed=self.headers.get("content-encoding") == "gzip")
        come = size = 0
        if int(self.headers.get("content-length", 0)) > most:
            raise TooLongError("the answer", most)
        async for chunk in self.chunks():
            parts.append(unpacker.part(chunk, most - size))
            come, size = come + len(chunk), size + len(parts[-1])
            if max(come, size) > most:
                raise TooLongError("the answer", most)
        unpacker.end()
        return b"".join(parts)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes.

        Raises:
            OSError: the connection broke, or what came is no HTTP.
        """
        while data := await self._connection.body():
            yield data
        self._complete = True


class _Unpacker:
    """Unpacks a body as it comes.

    Args:
        packed: whether it is gzip; else it stays as it is.
    """

    def __init__(self, *, packed: bool) -> None:
        self._gzip = zlib.decompressobj(_GZIP) if packed else None

    def part(self, data: bytes, most: int) -> bytes:
        """What the next bytes hold; not much more than `most` bytes of it."""
        if self._gzip is None:
            return data
        try:
            return self._gzip.decompress(data, most + 1)
        except zlib.error as error:
            raise ConnectionError(f"the answer can't be unpacked: {error}") from error

    def end(self) -> None:
        """The body has ended."""
        if self._gzip is not None and not self._gzip.eof:
            raise ConnectionError("the answer can't be unpacked: its end is missing")


class HttpConnection(asyncio.Protocol):
    """One connection to the server, for one request at a time.

    Attributes:
        idle_since: when its last answer was complete, in the loop's time.
    """

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._transport: asyncio.Transport
        self._parser = HttpResponseParser(self)
        self._asked = False
        self._unasked = False
        self._head = 0
        self._headers: dict[str, str] = {}
        self._answer: Answer | None = None
        self._body: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def exchange(self, head: bytes, body: bytes) -> Answer:
        """Sends a request and reads the answer up to its body.

        Raises:
            OSError: the connection broke, or what came is no HTTP.
        """
        self._answer, self._head, self._asked = None, 0, True
        self._transport.write(head + body)
        while self._answer is None:
            await self._news()
        return self._answer

    async def body(self) -> bytes:
        """What has come of the answer's body; nothing at its end.

        Raises:
            OSError: the connection broke, or what came is no HTTP.
        """
        while self._asked and not self._body:
            await self._news()
        data = b"".join(self._body)
        self._body.clear()
        self._unread = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    @property
    def is_usable(self) -> bool:
        """Whether the other side says nothing before it is asked, not even that it leaves."""
        return not (self._unasked or self._error or self._transport.is_closing())

    def cut(self) -> None:
        """Ends the connection at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The way to the server is there."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if not self._asked:
            self._unasked = True
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(ConnectionError(f"the answer is no HTTP: {error}"))
            return
        if self._answer is None:
            self._head += len(data)
            if self._head > _LONGEST_HEAD:
                self._fail(ConnectionError("the answer is no HTTP: its head does not end"))
        elif self._unread > _MOST_UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """The other side sends no more."""
        if self._asked and self._answer is not None and self._answer.ends_with_connection:
            self._complete()
        self._fail(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; who waits for an answer is told why."""
        self._fail(exc if isinstance(exc, OSError) else None)

    def on_message_begin(self) -> None:
        """The parser has come to the next answer."""
        self._headers = {}
        if not self._asked:
            self._unasked = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header, or a trailer."""
        if self._answer is None:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """The parser has come to the body."""
        status = self._parser.get_status_code()
        if self._asked and status >= 200:
            self._answer = Answer(self, status, self._headers, stays=self._parser.should_keep_alive())
            self._wake()

    def on_body(self, data: bytes) -> None:
        """The parser has read a part of the body."""
        if self._asked:
            self._body.append(data)
            self._unread += len(data)
            self._wake()

    def on_message_complete(self) -> None:
        """The parser has come to the end of an answer, maybe an interim one."""
        if self._answer is not None:
            self._complete()

    def _complete(self) -> None:
        self._asked = False
        self._wake()

    def _fail(self, error: OSError | None) -> None:
        where = "in the middle of the answer" if self._answer else "without an answer"
        self._error = self._error or error or ConnectionResetError(f"the connection was closed {where}")
        self._wake()

    async def _news(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
