"""SETTINGS: what each side takes (RFC 9113, section 6.5)."""

import struct
from typing import Final

from dradriver.rpc.errors import BrokenConnectionError, ErrorCode
from dradriver.rpc.frames import MAX_FRAME

__all__ = [
    "FIRST_WINDOW",
    "MAX_BODIES",
    "MAX_FIELDS",
    "MAX_MESSAGE",
    "MAX_STREAMS",
    "MAX_WINDOW",
    "OURS",
    "WINDOW",
    "PeerSettings",
]

FIRST_WINDOW: Final = 65535
"""Bytes that may be sent on a connection, and on each of its streams, until the other side says otherwise."""
MAX_WINDOW: Final = 2**31 - 1

MAX_MESSAGE: Final = 4 * 2**20
"""Bytes of a message that we take; gRPC's usual limit."""
MAX_BODIES: Final = 8 * MAX_MESSAGE
"""Bytes of large messages that have come in part, of all calls of a connection."""
MAX_STREAMS: Final = 256
"""Calls in flight on a connection; a client that has more to ask waits by itself."""
MAX_FIELDS: Final = 16 * 2**10
"""Bytes of a request's header fields."""
WINDOW: Final = MAX_MESSAGE + 5
"""What a client may send on a stream: one message with its prefix."""

_ENABLE_PUSH: Final = 0x2
_MAX_CONCURRENT_STREAMS: Final = 0x3
_INITIAL_WINDOW_SIZE: Final = 0x4
_MAX_FRAME_SIZE: Final = 0x5
_MAX_HEADER_LIST_SIZE: Final = 0x6
_ENTRY: Final = struct.Struct(">HI")
_LARGEST_FRAME: Final = 2**24 - 1

OURS: Final = b"".join(
    (
        _ENTRY.pack(_MAX_CONCURRENT_STREAMS, MAX_STREAMS),
        _ENTRY.pack(_INITIAL_WINDOW_SIZE, WINDOW),
        _ENTRY.pack(_MAX_HEADER_LIST_SIZE, MAX_FIELDS),
    )
)
"""The payload of the SETTINGS that we send."""


class PeerSettings:
    """What the client has said so far.

    Attributes:
        window: bytes that we may send on a stream that is new.
        frame: bytes of payload that it takes in a frame.
    """

    def __init__(self) -> None:
        self.window = FIRST_WINDOW
        self.frame = MAX_FRAME

    def take(self, payload: bytes) -> None:
        """The client has said more.

        Raises:
            BrokenConnectionError: it may not say that.
        """
        if len(payload) % _ENTRY.size:
            raise BrokenConnectionError(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a broken length")
        for name, value in _ENTRY.iter_unpack(payload):
            if name == _ENABLE_PUSH and value > 1:
                raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}")
            if name == _INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW:
                    raise BrokenConnectionError(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE is {value}")
                self.window = value
            if name == _MAX_FRAME_SIZE:
                if not MAX_FRAME <= value <= _LARGEST_FRAME:
                    raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE is {value}")
                self.frame = value
