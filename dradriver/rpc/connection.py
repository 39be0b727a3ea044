"""One connection of a client: what it sends becomes requests, what it is answered becomes bytes (RFC 9113).

Nothing here waits or does I/O. What the peer's windows keep back is kept here, and goes out when they open.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.rpc import frames
from dradriver.rpc.blocks import Block, Blocks
from dradriver.rpc.calls import TOO_LONG, Call, Fault
from dradriver.rpc.errors import BrokenConnectionError, BrokenStreamError, Code, ErrorCode
from dradriver.rpc.fields import (
    ANSWER_HEAD,
    NOT_GRPC,
    REFUSAL_HEAD,
    MalformedError,
    RequestHead,
    are_trailers,
    read_head,
    trailers,
)
from dradriver.rpc.frames import MAX_FRAME, Frame, FrameReader
from dradriver.rpc.outgoing import PREFIX, Outgoing, WindowError
from dradriver.rpc.settings import FIRST_WINDOW, MAX_BODIES, MAX_MESSAGE, MAX_STREAMS, OURS, WINDOW

__all__ = ["Abandoned", "Connection", "Event", "Request", "Sent"]

_WORD: Final = struct.Struct(">I")
_TWO_WORDS: Final = struct.Struct(">II")
_PING_BYTES: Final = 8
_LEAVING: Final = b"leaving."
"""Pings a client behind GOAWAY: its answer says that it has read both."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call, whole: `message` is the bytes of its one message."""

    stream: int
    head: RequestHead
    message: bytes


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Nobody waits for the answer of this call any more."""

    stream: int


@dataclass(frozen=True, slots=True)
class Sent:
    """All messages that were kept back on the stream have gone out."""

    stream: int


Event: TypeAlias = Request | Abandoned | Sent


class Connection:
    """Feed it with `receive`, tell it answers, and send what `take` gives after each of these."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._blocks = Blocks()
        self._out = Outgoing()
        self._calls: dict[int, Call] = {}
        self._last = 0
        self._ended_early: deque[int] = deque(maxlen=MAX_STREAMS)
        self._received = 0
        self._greeted = False
        self._told_last: int | None = None
        self._knows_end = False
        self._events: list[Event] = []
        self._out.frame(frames.SETTINGS, 0, 0, OURS)
        self._out.frame(frames.WINDOW_UPDATE, 0, 0, _WORD.pack(WINDOW - FIRST_WINDOW))
        self._handlers: Mapping[int, Callable[[Frame], None]] = {
            frames.DATA: self._data,
            frames.HEADERS: self._headers,
            frames.PRIORITY: self._priority,
            frames.RST_STREAM: self._rst_stream,
            frames.SETTINGS: self._settings,
            frames.PUSH_PROMISE: self._push_promise,
            frames.PING: self._ping,
            frames.GOAWAY: self._goaway,
            frames.WINDOW_UPDATE: self._window_update,
            frames.CONTINUATION: self._continuation,
        }
        self.broken = False
        """Whether the peer broke a rule: send what there is, and close."""

    @property
    def is_over(self) -> bool:
        """Whether the client will ask nothing more: it broke a rule, never began, or knows that we leave."""
        return self.broken or self._knows_end or not self._greeted

    def take(self) -> bytes:
        """What has to be sent now."""
        return self._out.take()

    def receive(self, data: bytes) -> list[Event]:
        """What the bytes mean; none breaks it, whatever they are."""
        try:
            for frame in () if self.broken else self._reader.feed(data):
                try:
                    self._handle(frame)
                except BrokenStreamError as error:
                    self._check_was_open(error.stream, error.code)
                    self._forget(error.stream)
                    self._end_early(error.stream, error.code)
        except BrokenConnectionError as error:
            self._go_away(error.code, str(error))
            self.broken = True
        events, self._events = self._events, []
        return events

    def send(self, stream: int, message: bytes) -> bool:
        """One message of an answer; whether all of it has gone out, else `Sent` says when."""
        if (call := self._calls.get(stream)) is None or call.answer.last is not None:
            return True  # nobody waits for it any more
        self._out.say(call.answer, message)
        self._flush(call)
        return not call.answer.unsent

    def end(self, stream: int, code: Code, text: str = "") -> None:
        """The answer is complete; of a call that is over already this says nothing."""
        if call := self._calls.get(stream):
            told = trailers(code, text)
            self._complete(call, told if call.answer.begun else ANSWER_HEAD + told)

    def leave(self) -> None:
        """Takes no new calls; those that have come go on."""
        if self._told_last is None:
            self._go_away(ErrorCode.NO_ERROR, "")
            self._out.frame(frames.PING, 0, 0, _LEAVING)

    def _handle(self, frame: Frame) -> None:
        if not self._greeted and frame.kind != frames.SETTINGS:
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._blocks.check_not_interrupted(frame)
        if handle := self._handlers.get(frame.kind):  # others mean nothing (section 4.1)
            handle(frame)

    def _headers(self, frame: Frame) -> None:
        if frame.stream % 2 == 0:
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"no client opens stream {frame.stream}")
        self._take_block(self._blocks.begin(frame))

    def _continuation(self, frame: Frame) -> None:
        self._take_block(self._blocks.go_on(frame))

    def _take_block(self, block: Block | None) -> None:
        if block is None:
            return
        if call := self._calls.get(block.stream):
            self._trailers(call, block)
        elif block.stream > self._last:
            self._open(block)
        elif block.stream not in self._ended_early:
            raise BrokenConnectionError(ErrorCode.STREAM_CLOSED, f"HEADERS on stream {block.stream}, long over")

    def _trailers(self, call: Call, block: Block) -> None:
        """Clients of gRPC send none, those of HTTP/2 may."""
        if call.asked:
            raise BrokenStreamError(block.stream, ErrorCode.STREAM_CLOSED, "HEADERS behind the end")
        if not (block.ends and are_trailers(block.fields)):
            raise BrokenStreamError(block.stream, ErrorCode.PROTOCOL_ERROR, "HEADERS in the middle")
        self._asked(call)

    def _open(self, block: Block) -> None:
        self._last = block.stream
        if block.dependency == block.stream:
            raise BrokenStreamError(block.stream, ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
        if self._told_last is not None or len(self._calls) >= MAX_STREAMS:
            raise BrokenStreamError(block.stream, ErrorCode.REFUSED_STREAM, "no more calls")
        try:
            head = read_head(block.fields)
        except MalformedError as error:
            raise BrokenStreamError(block.stream, ErrorCode.PROTOCOL_ERROR, str(error)) from error
        call = self._calls[block.stream] = Call(head, self._out.answer(block.stream))
        if block.ends:
            self._asked(call)

    def _data(self, frame: Frame) -> None:
        self._count(len(frame.payload))
        call = self._calls.get(frame.stream)
        if call is None:
            self._check_was_open(frame.stream)
            if frame.stream in self._ended_early:
                return  # it was on its way when the stream ended
        if call is None or call.asked:
            raise BrokenStreamError(frame.stream, ErrorCode.STREAM_CLOSED, "DATA behind the end")
        data = frames.without_padding(frame)
        if padding := len(frame.payload) - len(data):
            self._out.frame(frames.WINDOW_UPDATE, 0, frame.stream, _WORD.pack(padding))
        call.body += data
        if len(call.body) > WINDOW:
            raise BrokenStreamError(frame.stream, ErrorCode.FLOW_CONTROL_ERROR, "more than the window")
        if frame.flags & frames.END_STREAM:
            self._asked(call)
        else:
            self._limit(call)

    def _limit(self, call: Call) -> None:
        """Refuses what needs not be waited for."""
        if not call.head.is_grpc:
            if len(call.body) > MAX_FRAME:
                self._complete(call, NOT_GRPC)
        elif call.announced > MAX_MESSAGE:
            self._refuse(call, TOO_LONG)
        elif len(call.body) > MAX_FRAME and sum(len(c.body) for c in self._calls.values()) > MAX_BODIES:
            self._refuse(call, (Code.RESOURCE_EXHAUSTED, "too many large messages at once"))

    def _count(self, size: int) -> None:
        """What has come is read at once, so the client may send as much again."""
        self._received += size
        if self._received > WINDOW // 2:
            self._out.frame(frames.WINDOW_UPDATE, 0, 0, _WORD.pack(self._received))
            self._received = 0

    def _asked(self, call: Call) -> None:
        """The whole request has come."""
        if call.head.length not in (None, len(call.body)):
            raise BrokenStreamError(call.stream, ErrorCode.PROTOCOL_ERROR, "content-length is another")
        call.asked = True
        if not call.head.is_grpc:
            self._complete(call, NOT_GRPC)
        elif fault := call.fault():
            self._refuse(call, fault)
        else:
            self._events.append(Request(call.stream, call.head, bytes(call.body[PREFIX.size :])))
        call.body.clear()

    def _priority(self, frame: Frame) -> None:
        """Nothing is done about it; but it has a form."""
        if frame.stream == 0:
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "PRIORITY of the connection")
        if len(frame.payload) != frames.PRIORITY_BYTES:
            raise BrokenStreamError(frame.stream, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of a broken length")
        if frames.dependency(frame.payload) == frame.stream:
            raise BrokenStreamError(frame.stream, ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")

    def _rst_stream(self, frame: Frame) -> None:
        _check_length(frame, _WORD.size)
        self._check_was_open(frame.stream)
        self._forget(frame.stream)

    def _settings(self, frame: Frame) -> None:
        _check_of_connection(frame)
        if frame.flags & frames.ACK:
            _check_length(frame, 0)
            return
        self._greeted = True
        before = self._out.peer.window
        self._out.peer.take(frame.payload)
        self._out.frame(frames.SETTINGS, frames.ACK, 0)
        try:
            for call in self._calls.values():
                call.answer.credit.change(self._out.peer.window - before)
        except WindowError as error:
            raise BrokenConnectionError(error.code, "a window that is too large") from error
        self._opened(self._calls.values())

    def _push_promise(self, frame: Frame) -> None:
        raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"a client pushes on stream {frame.stream}")

    def _ping(self, frame: Frame) -> None:
        _check_of_connection(frame)
        _check_length(frame, _PING_BYTES)
        if frame.flags & frames.ACK:
            self._knows_end = self._knows_end or frame.payload == _LEAVING
        else:
            self._out.frame(frames.PING, frames.ACK, 0, frame.payload)

    def _goaway(self, frame: Frame) -> None:
        """The client opens no more streams; it closes the connection when it has its answers."""
        _check_of_connection(frame)
        if len(frame.payload) < _TWO_WORDS.size:
            raise BrokenConnectionError(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of a broken length")

    def _window_update(self, frame: Frame) -> None:
        _check_length(frame, _WORD.size)
        increment = _WORD.unpack(frame.payload)[0] & frames.NUMBER
        if frame.stream:
            self._check_was_open(frame.stream)
            if call := self._calls.get(frame.stream):
                try:
                    call.answer.credit.add(increment)
                except WindowError as error:
                    raise BrokenStreamError(frame.stream, error.code, "WINDOW_UPDATE") from error
                self._opened([call])
            return
        try:
            self._out.credit.add(increment)
        except WindowError as error:
            raise BrokenConnectionError(error.code, "WINDOW_UPDATE of the connection") from error
        self._opened(self._calls.values())

    def _check_was_open(self, stream: int, code: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> None:
        """Of a stream that was not, nothing may be said: no RST_STREAM either."""
        if stream % 2 == 0 or stream > self._last:
            raise BrokenConnectionError(code, f"stream {stream} was never opened")

    def _opened(self, calls: Iterable[Call]) -> None:
        """A window has opened."""
        for call in [call for call in calls if call.answer.unsent]:
            self._flush(call)
            if not call.answer.unsent:
                self._events.append(Sent(call.stream))

    def _refuse(self, call: Call, fault: Fault) -> None:
        """Answers without a method."""
        self._complete(call, REFUSAL_HEAD + trailers(*fault))

    def _complete(self, call: Call, last: bytes) -> None:
        if call.answer.last is None:
            call.answer.last = last
            self._flush(call)

    def _flush(self, call: Call) -> None:
        if self._out.flush(call.answer):
            del self._calls[call.stream]
            if not call.asked:
                self._end_early(call.stream, ErrorCode.NO_ERROR)

    def _end_early(self, stream: int, code: ErrorCode) -> None:
        """Before the client has said all: what of it is on its way is not read."""
        self._ended_early.append(stream)
        self._out.frame(frames.RST_STREAM, 0, stream, _WORD.pack(code))

    def _forget(self, stream: int) -> None:
        call = self._calls.pop(stream, None)
        if call is not None and call.asked:
            self._events.append(Abandoned(stream))

    def _go_away(self, code: ErrorCode, text: str) -> None:
        """The second time, no more streams are promised than the first time."""
        if self._told_last is None:
            self._told_last = self._last
        self._out.frame(frames.GOAWAY, 0, 0, _TWO_WORDS.pack(self._told_last, code) + text.encode())


def _check_of_connection(frame: Frame) -> None:
    if frame.stream:
        raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"stream {frame.stream} is none of this frame's")


def _check_length(frame: Frame, length: int) -> None:
    if len(frame.payload) != length:
        raise BrokenConnectionError(
            ErrorCode.FRAME_SIZE_ERROR, f"{len(frame.payload)} bytes instead of {length}"
        )
