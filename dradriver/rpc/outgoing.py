"""What goes out: frames at once, messages as the peer's windows let them (RFC 9113, sections 5.2 and 6.9)."""

import struct
from dataclasses import dataclass, field
from typing import Final

from dradriver.rpc import frames
from dradriver.rpc.errors import ErrorCode
from dradriver.rpc.fields import ANSWER_HEAD
from dradriver.rpc.frames import encoded
from dradriver.rpc.settings import FIRST_WINDOW, MAX_WINDOW, PeerSettings

__all__ = ["PREFIX", "Answer", "Outgoing", "WindowError"]

PREFIX: Final = struct.Struct(">BI")
"""Before each message of gRPC: whether it is compressed, and its bytes."""


class WindowError(Exception):
    """The peer's window makes no sense; `code` says how."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Credit:
    """Bytes that may be sent, of a stream or of the whole connection; below 0 after a change of settings."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def add(self, increment: int) -> None:
        """The peer lets us send more.

        Raises:
            WindowError: nothing more, or more than the protocol has room for.
        """
        if increment == 0:
            raise WindowError(ErrorCode.PROTOCOL_ERROR)
        self.change(increment)

    def change(self, by: int) -> None:
        """The window of new streams has changed by so much, and that of open ones with it.

        Raises:
            WindowError: it is larger now than the protocol has room for.
        """
        if self.left + by > MAX_WINDOW:
            raise WindowError(ErrorCode.FLOW_CONTROL_ERROR)
        self.left += by


@dataclass(slots=True)
class Answer:
    """What is said on a stream.

    Attributes:
        stream: which.
        credit: how much of it may be sent.
        unsent: what has not gone out of its messages.
        begun: whether its first fields have.
        last: its last fields, once it is complete.
    """

    stream: int
    credit: Credit
    unsent: bytearray = field(default_factory=bytearray)
    begun: bool = False
    last: bytes | None = None


class Outgoing:
    """Gathers what has to be sent until `take`."""

    def __init__(self) -> None:
        self.peer = PeerSettings()
        self.credit = Credit(FIRST_WINDOW)
        self._frames: list[bytes] = []

    def take(self) -> bytes:
        """What has to be sent now."""
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        """Sends a frame that no window keeps back."""
        self._frames.append(encoded(kind, flags, stream, payload))

    def answer(self, stream: int) -> Answer:
        """A new answer."""
        return Answer(stream, Credit(self.peer.window))

    def say(self, answer: Answer, message: bytes) -> None:
        """Adds a message to an answer."""
        if not answer.begun:
            answer.begun = True
            self.frame(frames.HEADERS, frames.END_HEADERS, answer.stream, ANSWER_HEAD)
        answer.unsent += PREFIX.pack(0, len(message)) + message

    def flush(self, answer: Answer) -> bool:
        """Sends what the windows let out of an answer; whether that is all, its last fields included."""
        while answer.unsent and (size := min(answer.credit.left, self.credit.left, self.peer.frame)) > 0:
            part = bytes(answer.unsent[:size])
            del answer.unsent[:size]
            answer.credit.left -= len(part)
            self.credit.left -= len(part)
            self.frame(frames.DATA, 0, answer.stream, part)
        if answer.unsent or answer.last is None:
            return False
        self.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, answer.stream, answer.last)
        return True
