"""What a watch delivers: JSON lines, one event each."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec

from dradriver.errors import DraError
from dradriver.model.codec import Value

__all__ = ["Head", "WatchEvent", "WatchKind", "head_of", "lines", "split_event"]

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


def head_of(data: bytes | msgspec.Raw) -> Head:
    """The head of an object's JSON text."""
    return _heads.decode(data).metadata


def split_event(line: bytes) -> tuple[str, bytes]:
    """Type and object of one line of a watch.

    Raises:
        msgspec.DecodeError: the line is no event; the connection was cut in the middle of it.
    """
    event = _events.decode(line)
    return event.type, bytes(event.object)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The complete lines of a stream; what follows the last line end is dropped."""
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        if b"\n" not in chunk:
            continue
        *complete, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in complete:
            if line:
                yield line
