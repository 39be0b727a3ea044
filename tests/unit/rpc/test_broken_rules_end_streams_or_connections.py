"""What RFC 9113 forbids ends the connection (GOAWAY) or one stream (RST_STREAM), with the code it names."""

from typing import Final

import pytest

from dradriver.rpc.connection import Abandoned
from dradriver.rpc.errors import Code, ErrorCode
from dradriver.rpc.settings import MAX_FIELDS, MAX_MESSAGE, MAX_STREAMS
from tests.unit.rpc.wire import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEAD,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Fields,
    Wire,
    frame,
    headers,
    literal,
    message,
    request,
    setting,
    window,
)

PROTOCOL, FLOW, CLOSED, SIZE, COMPRESSION, CALM = (
    ErrorCode.PROTOCOL_ERROR,
    ErrorCode.FLOW_CONTROL_ERROR,
    ErrorCode.STREAM_CLOSED,
    ErrorCode.FRAME_SIZE_ERROR,
    ErrorCode.COMPRESSION_ERROR,
    ErrorCode.ENHANCE_YOUR_CALM,
)

ASKED, HALF, OVER, IDLE = 1, 3, 5, 7
"""Streams: a request that is whole, one that is not, one that is answered, one that nobody opened."""


@pytest.fixture
def wire() -> Wire:
    wire = Wire()
    wire.send(request(ASKED), headers(HALF), request(OVER))
    wire.connection.end(OVER, Code.OK)
    wire.read()
    wire.events.clear()
    return wire


MANY_FIELDS: Final = b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000
"""A field of 4000 bytes for the table; `\\xbe` says it again."""

CONNECTION_ERRORS: Final[dict[str, tuple[bytes, ErrorCode]]] = {
    "a frame over 16384 bytes": (frame(DATA, 0, HALF, bytes(16385)), SIZE),
    "DATA of the connection": (frame(DATA), PROTOCOL),
    "DATA on an idle stream": (frame(DATA, 0, IDLE), PROTOCOL),
    "DATA on a stream of the server's": (frame(DATA, 0, 2), PROTOCOL),
    "DATA with more padding than payload": (frame(DATA, PADDED, HALF, b"\x05abcd"), PROTOCOL),
    "DATA without room for its padding": (frame(DATA, PADDED, HALF), PROTOCOL),
    "HEADERS of the connection": (headers(0), PROTOCOL),
    "HEADERS on a stream of the server's": (headers(2), PROTOCOL),
    "HEADERS on a stream that is over": (headers(OVER), CLOSED),
    "HEADERS with more padding than payload": (frame(HEADERS, PADDED, IDLE, b"\x05abcd"), PROTOCOL),
    "HEADERS without room for their priority": (frame(HEADERS, HAS_PRIORITY, IDLE, bytes(4)), SIZE),
    "a field of no table's": (frame(HEADERS, END_HEADERS, IDLE, b"\x80"), COMPRESSION),
    "a field that is cut off": (frame(HEADERS, END_HEADERS, IDLE, b"\x00\x05ab"), COMPRESSION),
    "a number without an end": (frame(HEADERS, END_HEADERS, IDLE, b"\xff" * 100), COMPRESSION),
    "a Huffman code of 30 ones": (
        frame(HEADERS, END_HEADERS, IDLE, b"\x00\x84\xff\xff\xff\xff\x00"),
        COMPRESSION,
    ),
    "a table over 4096 bytes": (frame(HEADERS, END_HEADERS, IDLE, b"\x3f\xe2\x1f"), COMPRESSION),
    "a table's size behind a field": (frame(HEADERS, END_HEADERS, IDLE, b"\x82\x20"), COMPRESSION),
    "few bytes that are many fields": (frame(HEADERS, END_HEADERS, IDLE, MANY_FIELDS + b"\xbe" * 20), CALM),
    "many bytes of fields": (
        frame(HEADERS, 0, IDLE, bytes(MAX_FIELDS)) + frame(CONTINUATION, 0, IDLE, b"\x00"),
        CALM,
    ),
    "CONTINUATION of nothing": (frame(CONTINUATION, END_HEADERS, HALF), PROTOCOL),
    "CONTINUATION on another stream": (
        headers(IDLE, flags=0) + frame(CONTINUATION, END_HEADERS, HALF),
        PROTOCOL,
    ),
    "a frame between HEADERS and CONTINUATION": (
        headers(IDLE, flags=0) + frame(PING, 0, 0, bytes(8)),
        PROTOCOL,
    ),
    "an unknown frame between HEADERS and CONTINUATION": (headers(IDLE, flags=0) + frame(99), PROTOCOL),
    "HEADERS between HEADERS and CONTINUATION": (headers(IDLE, flags=0) + headers(IDLE), PROTOCOL),
    "PRIORITY of the connection": (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    "PRIORITY of 4 bytes on an idle stream": (frame(PRIORITY, 0, IDLE, bytes(4)), SIZE),
    "an idle stream that depends on itself": (frame(PRIORITY, 0, IDLE, bytes((0, 0, 0, IDLE, 0))), PROTOCOL),
    "RST_STREAM of the connection": (frame(RST_STREAM, 0, 0, bytes(4)), PROTOCOL),
    "RST_STREAM on an idle stream": (frame(RST_STREAM, 0, IDLE, bytes(4)), PROTOCOL),
    "RST_STREAM of 3 bytes": (frame(RST_STREAM, 0, HALF, bytes(3)), SIZE),
    "SETTINGS of a stream": (frame(SETTINGS, 0, HALF), PROTOCOL),
    "SETTINGS of 5 bytes": (frame(SETTINGS, 0, 0, bytes(5)), SIZE),
    "SETTINGS that are acknowledged with more": (frame(SETTINGS, ACK, 0, bytes(6)), SIZE),
    "ENABLE_PUSH of 2": (frame(SETTINGS, 0, 0, setting(2, 2)), PROTOCOL),
    "INITIAL_WINDOW_SIZE of 2**31": (frame(SETTINGS, 0, 0, setting(4, 2**31)), FLOW),
    "INITIAL_WINDOW_SIZE that is too much for an open stream": (
        window(2**31 - 65536, ASKED) + frame(SETTINGS, 0, 0, setting(4, 65536)),
        FLOW,
    ),
    "MAX_FRAME_SIZE of 16383": (frame(SETTINGS, 0, 0, setting(5, 16383)), PROTOCOL),
    "MAX_FRAME_SIZE of 2**24": (frame(SETTINGS, 0, 0, setting(5, 2**24)), PROTOCOL),
    "PUSH_PROMISE": (frame(PUSH_PROMISE, END_HEADERS, HALF, bytes(4) + literal(HEAD)), PROTOCOL),
    "PING of a stream": (frame(PING, 0, HALF, bytes(8)), PROTOCOL),
    "PING of 7 bytes": (frame(PING, 0, 0, bytes(7)), SIZE),
    "GOAWAY of a stream": (frame(GOAWAY, 0, HALF, bytes(8)), PROTOCOL),
    "GOAWAY of 7 bytes": (frame(GOAWAY, 0, 0, bytes(7)), SIZE),
    "WINDOW_UPDATE of 3 bytes": (frame(WINDOW_UPDATE, 0, 0, bytes(3)), SIZE),
    "WINDOW_UPDATE on an idle stream": (window(1, IDLE), PROTOCOL),
    "WINDOW_UPDATE of the connection by nothing": (window(0), PROTOCOL),
    "WINDOW_UPDATE of the connection over 2**31 - 1": (window(2**31 - 65535), FLOW),
}


@pytest.mark.parametrize(("sent", "code"), CONNECTION_ERRORS.values(), ids=CONNECTION_ERRORS)
def test_the_connection_ends(wire: Wire, sent: bytes, code: ErrorCode) -> None:
    *_, last = wire.send(sent)
    assert (last.kind, last.code, int.from_bytes(last.payload[:4])) == (GOAWAY, code, OVER)
    assert wire.connection.broken
    assert wire.send(frame(PING, 0, 0, bytes(8)), request(9)) == []


def without(name: str) -> Fields:
    return [field for field in HEAD if field[0] != name]


LARGE: Final = b"".join(
    frame(DATA, 0, HALF, part) for part in (message(bytes(10_000)),) + (bytes(16384),) * 256
)

STREAM_ERRORS: Final[dict[str, tuple[int, bytes, ErrorCode]]] = {
    "DATA behind the end": (ASKED, frame(DATA, 0, ASKED), CLOSED),
    "HEADERS behind the end": (ASKED, headers(ASKED, flags=END_HEADERS | END_STREAM), CLOSED),
    "DATA on a stream that is over": (OVER, frame(DATA, 0, OVER), CLOSED),
    "trailers that do not end the request": (HALF, headers(HALF, [("a", "b")]), PROTOCOL),
    "trailers with a pseudo-header": (HALF, headers(HALF, flags=END_HEADERS | END_STREAM), PROTOCOL),
    "trailers with a name in capitals": (
        HALF,
        headers(HALF, [("A", "b")], flags=END_HEADERS | END_STREAM),
        PROTOCOL,
    ),
    "more than the window": (HALF, LARGE, FLOW),
    "WINDOW_UPDATE by nothing": (ASKED, window(0, ASKED), PROTOCOL),
    "WINDOW_UPDATE over 2**31 - 1": (ASKED, window(2**31 - 65535, ASKED), FLOW),
    "PRIORITY of 4 bytes": (HALF, frame(PRIORITY, 0, HALF, bytes(4)), SIZE),
    "PRIORITY that depends on itself": (HALF, frame(PRIORITY, 0, HALF, bytes((0, 0, 0, HALF, 0))), PROTOCOL),
    "HEADERS that depend on themselves": (
        IDLE,
        frame(HEADERS, END_HEADERS | HAS_PRIORITY, IDLE, bytes((0, 0, 0, IDLE, 0)) + literal(HEAD)),
        PROTOCOL,
    ),
    **{
        f"a request with {problem}": (IDLE, request(IDLE, b"", fields), PROTOCOL)
        for problem, fields in {
            "no method": without(":method"),
            "no scheme": without(":scheme"),
            "no path": without(":path"),
            "an empty path": [*without(":path"), (":path", "")][::-1],
            "two paths": [(":path", "/"), *HEAD],
            "a pseudo-header of an answer": [(":status", "200"), *HEAD],
            "a pseudo-header behind others": [*HEAD, (":authority", "x")],
            "a pseudo-header that does not exist": [(":what", "x"), *HEAD],
            "a name in capitals": [*HEAD, ("Name", "x")],
            "a name with a blank": [*HEAD, ("na me", "x")],
            "no name": [*HEAD, ("", "x")],
            "a line break in a value": [*HEAD, ("name", "x\r\nanother: y")],
            "a zero byte in a value": [*HEAD, ("name", "\x00")],
            "a connection": [*HEAD, ("connection", "close")],
            "a transfer-encoding": [*HEAD, ("transfer-encoding", "chunked")],
            "an upgrade": [*HEAD, ("upgrade", "h2c")],
            "te that is not trailers": [*without("te"), ("te", "gzip")],
            "a content-length that is another": [*HEAD, ("content-length", "4")],
            "a content-length that is none": [*HEAD, ("content-length", "-5")],
            "a content-length of 100 digits": [*HEAD, ("content-length", "9" * 100)],
            "a grpc-timeout of 9 digits": [*HEAD, ("grpc-timeout", "123456789S")],
            "a grpc-timeout without a unit": [*HEAD, ("grpc-timeout", "1")],
            "a grpc-timeout that is negative": [*HEAD, ("grpc-timeout", "-1S")],
        }.items()
    },
}


@pytest.mark.parametrize(("stream", "sent", "code"), STREAM_ERRORS.values(), ids=STREAM_ERRORS)
def test_one_stream_ends_and_the_others_go_on(wire: Wire, stream: int, sent: bytes, code: ErrorCode) -> None:
    ended = [one for one in wire.send(sent) if one.kind in (RST_STREAM, GOAWAY)]
    assert [(one.kind, one.stream, one.code) for one in ended] == [(RST_STREAM, stream, code)]
    assert wire.events == ([Abandoned(ASKED)] if stream == ASKED else [])
    wire.send(request(9, b"next"))
    wire.connection.end(9, Code.OK)
    assert wire.told(wire.read())["grpc-status"] == "0"


def test_a_number_of_5000_digits_is_no_length(wire: Wire) -> None:
    """Python turns no text of so many digits into a number."""
    block = wire.encoder.encode([*HEAD, ("content-length", "9" * 5000)])
    (last,) = wire.send(frame(HEADERS, END_HEADERS, IDLE, block))
    assert (last.kind, last.stream, last.code) == (RST_STREAM, IDLE, PROTOCOL)


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", PREFACE[:-1] + b"x", PREFACE + frame(PING, 0, 0, bytes(8))]
)
def test_who_does_not_greet_is_not_served(sent: bytes) -> None:
    wire = Wire.__new__(Wire)
    wire.connection, wire.events = type(Wire().connection)(), []
    *_, last = wire.send(sent)
    assert (last.kind, last.code) == (GOAWAY, PROTOCOL)


def test_a_call_more_than_there_may_be_is_refused() -> None:
    wire = Wire()
    streams = range(1, 2 * MAX_STREAMS, 2)
    assert wire.send(*(headers(stream) for stream in streams)) == []
    (refused,) = wire.send(headers(2 * MAX_STREAMS + 1))
    assert (refused.kind, refused.code) == (RST_STREAM, ErrorCode.REFUSED_STREAM)
    wire.send(frame(RST_STREAM, 0, 1, bytes(4)))
    assert wire.send(headers(2 * MAX_STREAMS + 3)) == []


def test_a_call_behind_the_end_is_refused_and_no_more_are_promised(wire: Wire) -> None:
    wire.connection.leave()
    goaway, ping = wire.read()
    assert (goaway.kind, goaway.payload) == (GOAWAY, OVER.to_bytes(4) + bytes(4))
    refused, pong = wire.send(request(IDLE), frame(PING, 0, 0, b"12345678"))
    assert (refused.kind, refused.stream, refused.code) == (RST_STREAM, IDLE, ErrorCode.REFUSED_STREAM)
    assert (pong.flags, pong.payload) == (ACK, b"12345678")
    assert not wire.connection.is_over
    assert wire.send(frame(PING, ACK, 0, ping.payload)) == []
    assert wire.connection.is_over
    (last,) = wire.send(frame(DATA))
    assert (last.kind, last.code, int.from_bytes(last.payload[:4])) == (GOAWAY, PROTOCOL, OVER)


def test_a_message_of_which_too_much_is_announced_is_refused_before_it_comes(wire: Wire) -> None:
    said = wire.send(frame(DATA, 0, HALF, b"\x00" + (MAX_MESSAGE + 1).to_bytes(4)))
    assert wire.told(said)["grpc-status"] == str(int(Code.RESOURCE_EXHAUSTED))
    assert (said[-1].kind, said[-1].code) == (RST_STREAM, ErrorCode.NO_ERROR)
    assert wire.send(frame(DATA, END_STREAM, HALF, bytes(1000))) == []
