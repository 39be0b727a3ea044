"""HTTP/1.1 on one connection: how a request is written and where its answer ends.

A client of our own, because every driver process pays for a general one: a tenth of a second at start, 10 MiB
of memory, and twice the time for each claim that is looked up. It speaks what API servers and the proxies
before them speak: no redirects, no cookies, no trailers that mean anything.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, SupportsIndex

__all__ = ["Answer", "HttpConnection", "Reader", "head_of_request"]

_BLOCK: Final = 2**16
_GZIP: Final = 16 + zlib.MAX_WBITS


class Reader(asyncio.StreamReader):
    """A stream that notices what nobody asked for: the end, or a proxy's last words.

    Attributes:
        unread: how many bytes have come and were not read yet.
        ended: the other side sends no more.
    """

    def __init__(self) -> None:
        super().__init__(limit=_BLOCK, loop=asyncio.get_running_loop())
        self.unread = 0
        self.ended = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Bytes have come."""
        self.unread += len(bytes(data))
        super().feed_data(data)

    def feed_eof(self) -> None:
        """The other side has ended."""
        self.ended = True
        super().feed_eof()

    async def read(self, n: int = -1) -> bytes:
        """At most `n` bytes; none at the end."""
        data = await super().read(n)
        self.unread -= len(data)
        return data

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]  # less is needed
        """Everything up to and with the separator."""
        data = await super().readuntil(separator)
        self.unread -= len(data)
        return data


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


@dataclass(frozen=True, slots=True)
class _Head:
    status: int
    headers: Mapping[str, str]
    stays: bool

    @classmethod
    def parse(cls, text: bytes) -> "_Head":
        first, *rest = text.decode("latin-1").split("\r\n")
        version, _, told = first.partition(" ")
        if not version.startswith("HTTP/1.") or not told[:3].isdecimal():
            raise ConnectionError(f"the answer is no HTTP: {first[:80]!r}")
        headers = {}
        for line in filter(None, rest):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        stays = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        return cls(int(told[:3]), headers, stays)


class Answer:
    """The answer to one request; its body is read once.

    Attributes:
        status: the HTTP status.
        headers: by name in lower case.
    """

    def __init__(self, reader: Reader, head: _Head) -> None:
        self.status = head.status
        self.headers = head.headers
        self._reader = reader
        self._stays = head.stays
        self._complete = False

    @property
    def leaves_connection_usable(self) -> bool:
        """Whether the body was read to its end, and the server wants more requests on the connection."""
        return self._complete and self._stays

    async def read(self) -> bytes:
        """The whole body, unpacked.

        Raises:
            OSError: the connection broke, or what came is no HTTP.
        """
        body = b"".join([chunk async for chunk in self.chunks()])
        if self.headers.get("content-encoding") != "gzip":
            return body
        try:
            return zlib.decompress(body, _GZIP)
        except zlib.error as error:
            raise ConnectionError(f"the answer can't be unpacked: {error}") from error

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes.

        Raises:
            OSError: the connection broke, or what came is no HTTP.
        """
        if self.status in {204, 304}:
            pass
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            while left := _size((await self._line()).partition(b";")[0], 16):
                async for data in self._bytes(left):
                    yield data
                await self._line()
            while await self._line():
                pass
        elif (length := self.headers.get("content-length")) is not None:
            async for data in self._bytes(_size(length.encode(), 10)):
                yield data
        else:
            self._stays = False
            while data := await self._reader.read(_BLOCK):
                yield data
        self._complete = True

    async def _bytes(self, left: int) -> AsyncGenerator[bytes, None]:
        while left:
            data = await self._reader.read(min(left, _BLOCK))
            if not data:
                raise ConnectionResetError("the connection was closed in the middle of the answer")
            left -= len(data)
            yield data

    async def _line(self) -> bytes:
        return (await _until(self._reader, b"\r\n"))[:-2]


class HttpConnection:
    """One connection to the server, for one request at a time.

    Attributes:
        idle_since: when its last answer was complete, in the loop's time.
    """

    def __init__(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.idle_since = 0.0

    async def exchange(self, head: bytes, body: bytes) -> Answer:
        """Sends a request and reads the answer up to its body.

        Raises:
            OSError: the connection broke, or what came is no HTTP.
        """
        self._writer.write(head + body)
        if len(body) > _BLOCK:
            await self._writer.drain()
        while True:
            found = _Head.parse(await _until(self._reader, b"\r\n\r\n"))
            if found.status >= 200:
                return Answer(self._reader, found)

    @property
    def is_usable(self) -> bool:
        """Whether the other side says nothing before it is asked, not even that it leaves."""
        return not (self._reader.unread or self._reader.ended or self._writer.is_closing())

    def cut(self) -> None:
        """Ends the connection at once."""
        self._writer.transport.abort()


async def _until(reader: Reader, end: bytes) -> bytes:
    try:
        return await reader.readuntil(end)
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the connection was closed without an answer") from error
    except asyncio.LimitOverrunError as error:
        raise ConnectionError(f"the answer is no HTTP: {error}") from error


def _size(text: bytes, base: int) -> int:
    digits = text.strip()
    if not digits.isalnum():  # int() would take signs and underscores too
        raise ConnectionError(f"the answer is no HTTP: {text[:80]!r} is no length")
    try:
        return int(digits, base)
    except ValueError as error:
        raise ConnectionError(f"the answer is no HTTP: {text[:80]!r} is no length") from error
