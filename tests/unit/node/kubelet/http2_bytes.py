"""A client's side of HTTP/2 in bytes, right or wrong. No library makes them, because none makes wrong ones."""

from collections.abc import Sequence
from typing import Final

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(
    10
)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
INITIAL_WINDOW_SIZE: Final = 4
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Fields = Sequence[tuple[str, str]]


def head(method: str) -> Fields:
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/test.Echo/{method}"),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    )


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def setting(name: int, value: int) -> bytes:
    return name.to_bytes(2) + value.to_bytes(4)


def window(increment: int, stream: int = 0) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4))


def headers(stream: int, fields: Fields, flags: int = END_HEADERS) -> bytes:
    """Fields that change no table."""
    return frame(HEADERS, flags, stream, literal(fields))


def literal(fields: Fields) -> bytes:
    return b"".join(
        b"\x10" + b"".join(len(part).to_bytes(1) + part.encode() for part in field) for field in fields
    )


def message(body: bytes) -> bytes:
    return bytes((0,)) + len(body).to_bytes(4) + body


def request(stream: int, method: str, body: bytes = b"") -> bytes:
    return headers(stream, head(method)) + frame(DATA, END_STREAM, stream, message(body))
