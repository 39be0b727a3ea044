"""A client of the gRPC server's connection that is not ours: `h2` keeps its states, tables and windows.

It raises when the server says what RFC 9113 forbids: more than the windows let out, frames on streams that are
over, fields that can't be read.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes

from dradriver.rpc.connection import Abandoned, Connection, Request, Sent
from dradriver.rpc.errors import Code
from dradriver.rpc.settings import MAX_STREAMS
from tests.unit.rpc.wire import HEAD, frame, frames_of, message


@dataclass
class Call:
    """What the client has still to send, and what it has got."""

    request: bytes
    unsent: bytes
    answer: bytes = b""
    fields: dict[bytes, bytes] = field(default_factory=dict)
    ended: bool = False
    reset: bool = False


@dataclass
class Pair:
    """The client and the server's connection, and what each has seen of the other."""

    server: Connection = field(default_factory=Connection)
    calls: dict[int, Call] = field(default_factory=dict)
    asked: dict[int, bytes] = field(default_factory=dict)
    answered: dict[int, bytes] = field(default_factory=dict)
    kept_back: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding=False))
        self.client.initiate_connection()
        self.exchange()

    def exchange(self) -> None:
        """Lets both sides read all that the other has said."""
        while True:
            to_server, to_client = self.client.data_to_send(), self.server.take()
            if not (to_server or to_client):
                return
            for event in self.server.receive(to_server):
                self._served(event)
            for one in frames_of(to_client):  # h2 minds the size of a frame before it has read what lies before
                for told in self.client.receive_data(frame(*one)):
                    self._told(told)

    def _served(self, event: Request | Abandoned | Sent) -> None:
        match event:
            case Request(stream, _, text):
                assert stream not in self.asked, "a request came twice"
                self.asked[stream] = text
            case Abandoned(stream):
                assert stream in self.asked
                assert self.calls[stream].reset
            case Sent(stream):
                self.kept_back.discard(stream)

    def _told(self, event: Event) -> None:
        match event:
            case ResponseReceived(stream_id=int(stream)) | TrailersReceived(stream_id=int(stream)):
                self.calls[stream].fields |= dict(event.headers or ())
            case DataReceived(stream_id=int(stream), data=bytes(data)):
                self.calls[stream].answer += data
            case StreamEnded(stream_id=int(stream)):
                self.calls[stream].ended = True
            case StreamReset(stream_id=int(stream)):
                raise AssertionError(f"stream {stream} was reset: {event}")
            case _:
                pass

    def ask(self, text: bytes) -> None:
        """One more call; its request is not sent yet."""
        if self.client.open_outbound_streams < MAX_STREAMS:
            stream = self.client.get_next_available_stream_id()
            self.calls[stream] = Call(text, message(text))
            self.client.send_headers(stream, HEAD)

    def send(self, stream: int, size: int, padding: int | None = None) -> None:
        """Some bytes of a request, as many as the windows let."""
        call = self.calls[stream]
        if call.reset or not call.unsent:
            return
        extra = 0 if padding is None else padding + 1
        room = min(self.client.local_flow_control_window(stream), self.client.max_outbound_frame_size) - extra
        if (size := min(size, room, len(call.unsent))) > 0:
            part, call.unsent = call.unsent[:size], call.unsent[size:]
            self.client.send_data(stream, part, end_stream=not call.unsent, pad_length=padding)

    def reset(self, stream: int) -> None:
        """The client gives a call up."""
        call = self.calls[stream]
        if not (call.ended or call.reset):
            call.reset = True
            self.client.reset_stream(stream)

    def answer(self, stream: int, text: bytes) -> None:
        """One message of an answer."""
        if stream in self.asked and stream not in self.kept_back and stream not in self.ended:
            if not self.server.send(stream, text):
                self.kept_back.add(stream)
            self.answered[stream] = self.answered.get(stream, b"") + message(text)

    def end(self, stream: int) -> None:
        """The end of an answer."""
        if stream in self.asked:
            self.ended.add(stream)
            self.server.end(stream, Code.OK)

    def open(self, size: int, stream: int) -> None:
        """The server may send more; on the connection where the stream is 0."""
        with suppress(StreamClosedError, KeyError):  # it is over
            self.client.increment_flow_control_window(size, stream or None)

    def window(self, size: int) -> None:
        """The server may send so much on each stream."""
        self._change(SettingCodes.INITIAL_WINDOW_SIZE, size)

    def largest_frame(self, size: int) -> None:
        """The server may send frames of this size."""
        self._change(SettingCodes.MAX_FRAME_SIZE, size)

    def _change(self, setting: SettingCodes, value: int) -> None:
        self.exchange()  # h2 takes an answer to one change for an answer to all that it has sent
        self.client.update_settings({setting: value})
