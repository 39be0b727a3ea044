"""The events of a watch: JSON lines, one event each."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec

from dradriver.errors import DraError
from dradriver.kube.http.request import TooLongError
from dradriver.model.encoding.codec import Value

__all__ = ["CUT_OFF", "Head", "WatchEvent", "WatchKind", "cut_off", "head_of", "lines", "split_event"]

T = TypeVar("T")


class WatchKind(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Head(Value, frozen=True, kw_only=True):
    """The metadata by which caches identify objects and their versions."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""
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
        head: the object's identity and its new resource version (the only content of a bookmark).
        object: the object; None for a bookmark and for an object that can't be read.
        problem: why the object can't be read.
    """

    kind: WatchKind
    head: Head
    object: T | None = None
    problem: DraError | None = None


_heads: Final = msgspec.json.Decoder(_WithHead)
_events: Final = msgspec.json.Decoder(_Event)


CUT_OFF: Final = b'"nested too deeply to be read"'
"""The text that `cut_off` writes in place of a removed part. An author who writes it hides only the author's
own object.
"""
_DEEPEST: Final = 64
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')


def cut_off(data: bytes) -> bytes:
    """Return the JSON text without its deeply nested parts, for texts that are too deep to be decoded.

    The API server accepts 10,000 levels in a claim's parameters, Python far fewer. One such object must not
    hide the others in its list or watch.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(data):
        if token[0] in b"{[":
            depth += 1
            if depth == _DEEPEST:
                kept += (data[start : token.start()], CUT_OFF)
        elif token[0] in b"}]":
            depth -= 1
            if depth == _DEEPEST - 1:
                start = token.end()
    return b"".join((*kept, data[start:]))


def head_of(data: bytes | msgspec.Raw) -> Head:
    """Return the head of an object's JSON text."""
    try:
        return _heads.decode(data).metadata
    except RecursionError:
        return _heads.decode(cut_off(bytes(data))).metadata


def split_event(line: bytes) -> tuple[str, bytes]:
    """Return type and object of one line of a watch.

    `cut_off` is applied to an object that is nested too deeply.

    Raises:
        msgspec.DecodeError: the line is not an event; the connection was cut in the middle of it.
    """
    try:
        event = _events.decode(line)
    except RecursionError:
        event = _events.decode(cut_off(line))
    return event.type, bytes(event.object)


async def lines(chunks: AsyncIterator[bytes], most: int) -> AsyncGenerator[bytes, None]:
    """Yield the complete lines of a stream, and drop the text after the last line end.

    Args:
        chunks: the stream.
        most: the longest line, in bytes.

    Raises:
        TooLongError: a line is longer.
    """
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        if b"\n" in chunk:
            *complete, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in complete:
                if len(line) > most:
                    raise TooLongError("a line of a watch", most)
                if line:
                    yield line
        if len(rest) > most:
            raise TooLongError("a line of a watch", most)
