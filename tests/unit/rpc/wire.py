"""A client's side of HTTP/2 in bytes, right or wrong; it shares no code with the server but HPACK's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hpack import Decoder, Encoder

from dradriver.rpc.connection import Connection, Event

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(
    10
)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, HAS_PRIORITY = 0x4, 0x8, 0x20
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Fields = Sequence[tuple[str, str]]

HEAD: Final[Fields] = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/test.Echo/Say"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """Of RST_STREAM and GOAWAY."""
        return int.from_bytes(self.payload[4:8] if self.kind == GOAWAY else self.payload)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def frames_of(data: bytes) -> list[Frame]:
    """The frames in what a server sent; all of them are whole."""
    found = []
    while data:
        end = 9 + int.from_bytes(data[:3])
        assert len(data) >= end
        found.append(Frame(data[3], data[4], int.from_bytes(data[5:9]), data[9:end]))
        data = data[end:]
    return found


def setting(name: int, value: int) -> bytes:
    return name.to_bytes(2) + value.to_bytes(4)


def window(increment: int, stream: int = 0) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4))


def headers(stream: int, fields: Fields = HEAD, flags: int = END_HEADERS) -> bytes:
    """Fields that change no table."""
    return frame(HEADERS, flags, stream, literal(fields))


def literal(fields: Fields) -> bytes:
    return b"".join(
        b"\x10" + b"".join(len(part).to_bytes(1) + part.encode() for part in field) for field in fields
    )


def message(body: bytes, *, compressed: int = 0) -> bytes:
    return bytes((compressed,)) + len(body).to_bytes(4) + body


def request(stream: int, body: bytes = b"", fields: Fields = HEAD) -> bytes:
    return headers(stream, fields) + frame(DATA, END_STREAM, stream, message(body))


@dataclass
class Wire:
    """A client of a `Connection`, greeted."""

    connection: Connection = field(default_factory=Connection)
    events: list[Event] = field(default_factory=list)
    encoder: Encoder = field(default_factory=Encoder)
    decoder: Decoder = field(default_factory=Decoder)

    def __post_init__(self) -> None:
        self.send(PREFACE + frame(SETTINGS))

    def send(self, *data: bytes) -> list[Frame]:
        """What the server says to it."""
        self.events += self.connection.receive(b"".join(data))
        return self.read()

    def read(self) -> list[Frame]:
        return frames_of(self.connection.take())

    def told(self, said: Sequence[Frame]) -> dict[str, str]:
        """The fields of all HEADERS, in their order."""
        blocks = [self.decoder.decode(one.payload) for one in said if one.kind == HEADERS]
        return {str(name): str(value) for block in blocks for name, value in block}
