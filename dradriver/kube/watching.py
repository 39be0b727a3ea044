"""What a watch delivers: JSON lines, one event each."""

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
    """What happened to the object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Head(Value, frozen=True, kw_only=True):
    """The part of an object's metadata by which caches tell objects and their versions apart."""

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
        kind: what happened.
        head: which object, and its new resource version (all that a bookmark has).
        object: the object; None for a bookmark and for one that can't be read.
        problem: why it can't be read.
    """

    kind: WatchKind
    head: Head
    object: T | None = None
    problem: DraError | None = None


_heads: Final = msgspec.json.Decoder(_WithHead)
_events: Final = msgspec.json.Decoder(_Event)


CUT_OFF: Final = b'"nested too deeply to be read"'
"""What `cut_off` leaves where it cut. Whoever writes it himself only hides his own object."""
_DEEPEST: Final = 64
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')


def cut_off(data: bytes) -> bytes:
    """The JSON text without what is nested deeply, for texts that are too deep to be decoded.

    The API server takes 10,000 levels in a claim's parameters, Python far fewer. One such object must not hide
    the others in its list or watch.
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
    """The head of an object's JSON text."""
    try:
        return _heads.decode(data).metadata
    except RecursionError:
        return _heads.decode(cut_off(bytes(data))).metadata


def split_event(line: bytes) -> tuple[str, bytes]:
    """Type and object of one line of a watch; the object is `cut_off` if it is nested too deeply.

    Raises:
        msgspec.DecodeError: the line is no event; the connection was cut in the middle of it.
    """
    try:
        event = _events.decode(line)
    except RecursionError:
        event = _events.decode(cut_off(line))
    return event.type, bytes(event.object)


async def lines(chunks: AsyncIterator[bytes], most: int) -> AsyncGenerator[bytes, None]:
    """The complete lines of a stream; what follows the last line end is dropped.

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
