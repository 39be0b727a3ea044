"""Reads the events of a watch: one JSON line for each event."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec

from dradriver.errors import DraError
from dradriver.kube.http.request import TooLongError
from dradriver.model.encoding.codec import Value

__all__ = [
    "TRUNCATED",
    "Head",
    "WatchEvent",
    "WatchKind",
    "read_head",
    "split_event",
    "split_lines",
    "truncate",
]

T = TypeVar("T")


class WatchKind(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Head(Value, frozen=True, kw_only=True):
    """The metadata that identifies an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name for a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _WithHead(Value, frozen=True):
    metadata: Head = Head()


class _Event(Value, frozen=True):
    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change, or a bookmark.

    Attributes:
        kind: the type of the event.
        head: the object's identity and its new resource version. A bookmark contains only the resource version.
        object: the object; None for a bookmark and for an object that can't be read.
        problem: why the object can't be read; None if it can be read.
    """

    kind: WatchKind
    head: Head
    object: T | None = None
    problem: DraError | None = None


_heads: Final = msgspec.json.Decoder(_WithHead)
_events: Final = msgspec.json.Decoder(_Event)


TRUNCATED: Final = b'"nested too deeply to be read"'
"""The text with which `truncate` replaces a removed part.

If a user writes this text into an object, only this object becomes unreadable.
"""
_MAX_DEPTH: Final = 64
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')


def truncate(data: bytes) -> bytes:
    """Return the JSON text without its deeply nested parts. Texts that are nested too deeply can't be decoded.

    The API server accepts 10,000 levels in a claim's parameters, but Python can decode far fewer. One such
    object must not make the other objects of a list or watch unreadable.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(data):
        if token[0] in b"{[":
            depth += 1
            if depth == _MAX_DEPTH:
                kept += (data[start : token.start()], TRUNCATED)
        elif token[0] in b"}]":
            depth -= 1
            if depth == _MAX_DEPTH - 1:
                start = token.end()
    return b"".join((*kept, data[start:]))


def read_head(data: bytes | msgspec.Raw) -> Head:
    """Return the head of an object's JSON text."""
    try:
        return _heads.decode(data).metadata
    except RecursionError:
        return _heads.decode(truncate(bytes(data))).metadata


def split_event(line: bytes) -> tuple[str, bytes]:
    """Return the type and the object of one line of a watch.

    If the object is nested too deeply, `truncate` is applied to it.

    Raises:
        msgspec.DecodeError: the line is not an event, because the connection was cut in the middle of the line.
    """
    try:
        event = _events.decode(line)
    except RecursionError:
        event = _events.decode(truncate(line))
    return event.type, bytes(event.object)


async def split_lines(chunks: AsyncIterator[bytes], max_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the complete lines of a stream. Text after the last line end is dropped.

    Args:
        chunks: the stream.
        max_bytes: the maximum size of a line in bytes.

    Raises:
        TooLongError: a line is longer than `max_bytes`.
    """
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        if b"\n" in chunk:
            *complete, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in complete:
                if len(line) > max_bytes:
                    raise TooLongError("a line of a watch", max_bytes)
                if line:
                    yield line
        if len(rest) > max_bytes:
            raise TooLongError("a line of a watch", max_bytes)
