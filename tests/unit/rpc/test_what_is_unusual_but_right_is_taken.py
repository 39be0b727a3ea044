"""What RFC 9113 allows and no client of gRPC does, or seldom."""

from typing import Final

import pytest

from dradriver.rpc.connection import Abandoned, Request, Sent
from dradriver.rpc.errors import Code
from dradriver.rpc.settings import MAX_STREAMS, WINDOW
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
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Wire,
    frame,
    headers,
    literal,
    message,
    request,
    setting,
    window,
)

OVER: Final = 1
"""A stream that is answered."""
RESET: Final = 3
"""One that the server has ended before the client had said all."""
IDLE: Final = 5


@pytest.fixture
def wire() -> Wire:
    wire = Wire()
    wire.send(request(OVER), headers(RESET), frame(PRIORITY, 0, RESET, bytes(4)))
    wire.connection.end(OVER, Code.OK)
    wire.read()
    wire.events.clear()
    return wire


IGNORED: Final = {
    "a frame of an unknown type": frame(99, 0xFF, IDLE, b"what"),
    "flags that mean nothing": frame(PRIORITY, 0xFF, IDLE, bytes(5)),
    "PRIORITY on an idle stream": frame(PRIORITY, 0, IDLE, bytes(5)),
    "PRIORITY on a stream that is over": frame(PRIORITY, 0, OVER, bytes(5)),
    "WINDOW_UPDATE on a stream that is over": window(1, OVER),
    "RST_STREAM on a stream that is over": frame(RST_STREAM, 0, OVER, bytes(4)),
    "DATA on a stream that was reset meanwhile": frame(DATA, END_STREAM, RESET, bytes(100)),
    "trailers on a stream that was reset meanwhile": headers(
        RESET, [("a", "b")], flags=END_HEADERS | END_STREAM
    ),
    "an answer to a ping that nobody sent": frame(PING, ACK, 0, bytes(8)),
    "GOAWAY with a text": frame(GOAWAY, 0, 0, bytes(8) + b"good bye"),
    "acknowledged settings": frame(SETTINGS, ACK),
    "the largest window": window(2**31 - 1 - 65535),
    "a reserved bit": frame(WINDOW_UPDATE, 0, 0, (2**31 + 1).to_bytes(4)),
}


@pytest.mark.parametrize("sent", IGNORED.values(), ids=IGNORED)
def test_nothing_is_said_about_it(wire: Wire, sent: bytes) -> None:
    assert wire.send(sent) == []
    assert not wire.events
    assert not wire.connection.broken


BODY: Final = message(b"hello")

REQUESTS: Final = {
    "HEADERS alone, then DATA alone": headers(IDLE) + frame(DATA, END_STREAM, IDLE, BODY),
    "an END_STREAM behind the DATA": headers(IDLE) + frame(DATA, 0, IDLE, BODY) + frame(DATA, END_STREAM, IDLE),
    "DATA of one byte each": headers(IDLE)
    + b"".join(frame(DATA, 0, IDLE, bytes((byte,))) for byte in BODY)
    + frame(DATA, END_STREAM, IDLE),
    "padding": frame(HEADERS, END_HEADERS | PADDED, IDLE, b"\x03" + literal(HEAD) + bytes(3))
    + frame(DATA, END_STREAM | PADDED, IDLE, b"\xff" + BODY + bytes(255)),
    "padding of no bytes": headers(IDLE) + frame(DATA, END_STREAM | PADDED, IDLE, b"\x00" + BODY),
    "a priority": frame(HEADERS, END_HEADERS | HAS_PRIORITY, IDLE, bytes(5) + literal(HEAD))
    + frame(DATA, END_STREAM, IDLE, BODY),
    "fields of one byte each": frame(HEADERS, 0, IDLE, literal(HEAD)[:1])
    + b"".join(frame(CONTINUATION, 0, IDLE, bytes((byte,))) for byte in literal(HEAD)[1:])
    + frame(CONTINUATION, END_HEADERS, IDLE)
    + frame(DATA, END_STREAM, IDLE, BODY),
    "trailers": headers(IDLE)
    + frame(DATA, 0, IDLE, BODY)
    + headers(IDLE, [("checksum", "1")], flags=END_HEADERS | END_STREAM),
    "another stream in between": headers(IDLE) + request(7) + frame(DATA, END_STREAM, IDLE, BODY),
    "its length": headers(IDLE, [*HEAD, ("content-length", str(len(BODY)))])
    + frame(DATA, END_STREAM, IDLE, BODY),
    "the longest time": headers(IDLE, [*HEAD, ("grpc-timeout", "99999999H")])
    + frame(DATA, END_STREAM, IDLE, BODY),
}


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_a_request_may_come_with(wire: Wire, sent: bytes) -> None:
    wire.send(sent)
    (asked,) = [event for event in wire.events if isinstance(event, Request) and event.stream == IDLE]
    assert (asked.message, asked.head.path) == (b"hello", "/test.Echo/Say")


def test_a_ping_is_answered_with_its_bytes(wire: Wire) -> None:
    (pong,) = wire.send(frame(PING, 0, 0, b"12345678"))
    assert (pong.kind, pong.flags, pong.payload) == (PING, ACK, b"12345678")


def test_settings_are_acknowledged_one_by_one(wire: Wire) -> None:
    said = wire.send(frame(SETTINGS, 0, 0, setting(99, 7)), frame(SETTINGS, 0, 0, setting(3, 0)))
    assert [(one.kind, one.flags, one.payload) for one in said] == [(SETTINGS, ACK, b"")] * 2


def test_padding_is_given_back_to_the_window_of_the_stream(wire: Wire) -> None:
    (update,) = wire.send(headers(IDLE), frame(DATA, PADDED, IDLE, b"\x09" + bytes(9)))
    assert (update.kind, update.stream, int.from_bytes(update.payload)) == (WINDOW_UPDATE, IDLE, 10)


def test_the_window_of_the_connection_is_given_back_whatever_becomes_of_the_data(wire: Wire) -> None:
    before, sent = len(message(b"")), WINDOW // 2 // 16384 * 16384
    (update,) = wire.send(frame(DATA, 0, RESET, bytes(16384)) * (sent // 16384))
    assert (update.kind, update.stream, int.from_bytes(update.payload)) == (WINDOW_UPDATE, 0, before + sent)


def test_the_table_of_fields_is_kept_although_a_request_is_refused() -> None:
    """Or the next request could not be read."""
    wire = Wire()
    wire.send(*(headers(stream) for stream in range(1, 2 * MAX_STREAMS, 2)))
    stream = 2 * MAX_STREAMS + 1
    wire.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, wire.encoder.encode(HEAD)))
    wire.send(frame(RST_STREAM, 0, 1, bytes(4)))
    block = wire.encoder.encode(HEAD)
    assert len(block) < 10
    wire.send(frame(HEADERS, END_HEADERS, stream + 2, block), frame(DATA, END_STREAM, stream + 2, BODY))
    assert [event.message for event in wire.events if isinstance(event, Request)] == [b"hello"]


def test_a_client_that_leaves_gets_its_answers(wire: Wire) -> None:
    wire.send(request(IDLE), frame(GOAWAY, 0, 0, bytes(8)))
    wire.connection.send(IDLE, b"answer")
    wire.connection.end(IDLE, Code.OK)
    assert wire.told(wire.read())["grpc-status"] == "0"


def test_what_is_said_of_a_call_that_is_over_goes_nowhere(wire: Wire) -> None:
    wire.send(request(IDLE), frame(RST_STREAM, 0, IDLE, bytes(4)))
    assert isinstance(wire.events.pop(), Abandoned)
    assert wire.connection.send(IDLE, b"answer")
    wire.connection.end(IDLE, Code.OK)
    wire.connection.end(IDLE, Code.UNKNOWN)
    assert wire.read() == []


def test_nothing_is_said_behind_the_end_of_an_answer() -> None:
    wire = Wire()
    wire.send(frame(SETTINGS, 0, 0, setting(4, 6)), request(1))
    assert not wire.connection.send(1, b"ab")
    wire.connection.end(1, Code.UNAVAILABLE)
    assert wire.connection.send(1, b"cd")
    said = wire.read() + wire.send(window(100, 1))
    assert b"".join(one.payload for one in said if one.kind == DATA) == message(b"ab")
    assert (said[-1].kind, said[-1].flags) == (HEADERS, END_HEADERS | END_STREAM)
    assert isinstance(wire.events[-1], Sent)
