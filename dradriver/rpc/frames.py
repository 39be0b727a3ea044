"""Frames of HTTP/2: bytes to frames and back (RFC 9113, sections 4 and 6)."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from dradriver.rpc.errors import BrokenConnectionError, ErrorCode

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "GOAWAY",
    "HEADERS",
    "MAX_FRAME",
    "NUMBER",
    "PING",
    "PREFACE",
    "PRIORITY",
    "PRIORITY_BYTES",
    "PUSH_PROMISE",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "Frame",
    "FrameReader",
    "dependency",
    "encoded",
    "without_padding",
    "without_priority",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""

# Types of frames.
DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
_PADDED: Final = 0x8
_PRIORITY: Final = 0x20

MAX_FRAME: Final = 16384
"""Bytes of payload that every peer takes (SETTINGS_MAX_FRAME_SIZE begins with it); we take no more."""

_HEAD: Final = struct.Struct(">IBI")
"""Length and type in one number, flags, stream."""
NUMBER: Final = 0x7FFFFFFF
"""The bits of a number of streams or bytes: the one before them is reserved."""
PRIORITY_BYTES: Final = 5
"""What says where a stream comes, alone or before the fields of HEADERS."""


class Frame(NamedTuple):
    """One frame; `stream` is 0 where it is about the connection."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def encoded(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


class FrameReader:
    """Finds the frames in what a client sends, however that is cut up."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now.

        Raises:
            BrokenConnectionError: no client of HTTP/2, or a frame of more than `MAX_FRAME` bytes.
        """
        self._bytes += data
        if not self._begun:
            self._begin()
        at = 0
        try:
            while self._begun and len(self._bytes) - at >= _HEAD.size:
                length_and_kind, flags, stream = _HEAD.unpack_from(self._bytes, at)
                length = length_and_kind >> 8
                if length > MAX_FRAME:
                    raise BrokenConnectionError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
                end = at + _HEAD.size + length
                if end > len(self._bytes):
                    return
                payload = bytes(self._bytes[at + _HEAD.size : end])
                at = end
                yield Frame(length_and_kind & 0xFF, flags, stream & NUMBER, payload)
        finally:
            del self._bytes[:at]

    def _begin(self) -> None:
        got = bytes(self._bytes[: len(PREFACE)])
        if not PREFACE.startswith(got):
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "the client does not speak HTTP/2")
        if got == PREFACE:
            self._begun = True
            del self._bytes[: len(PREFACE)]


def without_padding(frame: Frame) -> bytes:
    """The payload of a DATA or HEADERS frame.

    Raises:
        BrokenConnectionError: there is more padding than payload.
    """
    if not frame.flags & _PADDED:
        return frame.payload
    if not frame.payload or frame.payload[0] >= len(frame.payload):
        raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "a frame of padding alone")
    return frame.payload[1 : len(frame.payload) - frame.payload[0]]


def without_priority(frame: Frame, payload: bytes) -> tuple[bytes, int | None]:
    """The fields of a HEADERS frame without padding, and the stream that it says it depends on.

    Raises:
        BrokenConnectionError: the frame is too short.
    """
    if not frame.flags & _PRIORITY:
        return payload, None
    if len(payload) < PRIORITY_BYTES:
        raise BrokenConnectionError(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without room for their priority")
    return payload[PRIORITY_BYTES:], dependency(payload)


def dependency(payload: bytes) -> int:
    """The stream that a priority names."""
    return int.from_bytes(payload[:4]) & NUMBER
