"""Header fields as they come: in one HEADERS frame, or going on in CONTINUATION (RFC 9113, section 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from dradriver.rpc import frames
from dradriver.rpc.errors import BrokenConnectionError, ErrorCode
from dradriver.rpc.frames import Frame
from dradriver.rpc.settings import MAX_FIELDS

__all__ = ["Block", "Blocks"]


class Block(NamedTuple):
    """The fields of one request, or those behind its body.

    Attributes:
        stream: whose.
        ends: whether the client has said all with them.
        dependency: the stream that this one should come after; nothing is done about it.
        fields: names and values.
    """

    stream: int
    ends: bool
    dependency: int | None
    fields: Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class _Open:
    stream: int
    ends: bool
    dependency: int | None
    data: bytes


class Blocks:
    """Puts blocks together and decodes them, of every stream, wanted or not: both sides keep the same table."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_FIELDS)
        self._open: _Open | None = None

    def check_not_interrupted(self, frame: Frame) -> None:
        """Between the frames of a block nothing else may come.

        Raises:
            BrokenConnectionError: it has.
        """
        going_on = None if self._open is None else self._open.stream
        if (frame.stream if frame.kind == frames.CONTINUATION else None) != going_on:
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "header fields are interrupted")

    def begin(self, frame: Frame) -> Block | None:
        """A HEADERS frame; the block, if it is whole.

        Raises:
            BrokenConnectionError: it can't be read.
        """
        data, dependency = frames.without_priority(frame, frames.without_padding(frame))
        return self._take(_Open(frame.stream, bool(frame.flags & frames.END_STREAM), dependency, data), frame)

    def go_on(self, frame: Frame) -> Block | None:
        """A CONTINUATION frame of the block that is open; the block, if it is whole.

        Raises:
            BrokenConnectionError: it can't be read.
        """
        block, self._open = cast(_Open, self._open), None
        block.data += frame.payload
        return self._take(block, frame)

    def _take(self, block: _Open, frame: Frame) -> Block | None:
        if len(block.data) > MAX_FIELDS:
            raise BrokenConnectionError(
                ErrorCode.ENHANCE_YOUR_CALM, f"over {MAX_FIELDS} bytes of header fields"
            )
        if not frame.flags & frames.END_HEADERS:
            self._open = block
            return None
        try:
            fields = self._decoder.decode(block.data, raw=True)
        except OversizedHeaderListError as error:
            raise BrokenConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many header fields") from error
        except HPACKError as error:
            raise BrokenConnectionError(ErrorCode.COMPRESSION_ERROR, f"header fields: {error}") from error
        return Block(block.stream, block.ends, block.dependency, cast(Sequence[tuple[bytes, bytes]], fields))
