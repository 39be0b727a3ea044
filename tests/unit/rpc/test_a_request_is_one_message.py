"""What a request without, or with half a, or with two messages is answered; and what is no call of gRPC."""

from typing import Final

import pytest

from dradriver.rpc.connection import Request
from dradriver.rpc.errors import Code, ErrorCode
from dradriver.rpc.settings import MAX_BODIES, MAX_MESSAGE
from tests.unit.rpc.wire import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    RST_STREAM,
    Fields,
    Wire,
    frame,
    headers,
    message,
    request,
)

GZIP: Final[Fields] = [*HEAD, ("grpc-encoding", "gzip")]

FAULTS: Final[dict[str, tuple[Fields, bytes, Code]]] = {
    "none": (HEAD, b"", Code.UNIMPLEMENTED),
    "a prefix that is cut off": (HEAD, bytes(3), Code.INTERNAL),
    "a message that is cut off": (HEAD, message(b"hello")[:-1], Code.INTERNAL),
    "two": (HEAD, message(b"hello") * 2, Code.UNIMPLEMENTED),
    "one that is too long": (HEAD, b"\x00\xff\xff\xff\xff", Code.RESOURCE_EXHAUSTED),
    "one that is compressed": (GZIP, message(b"hello", compressed=1), Code.UNIMPLEMENTED),
    "one that is compressed but does not say how": (HEAD, message(b"hello", compressed=1), Code.INTERNAL),
}


@pytest.mark.parametrize(("fields", "body", "code"), FAULTS.values(), ids=FAULTS)
def test_a_request_with(fields: Fields, body: bytes, code: Code) -> None:
    wire = Wire()
    (answer,) = wire.send(headers(1, fields), frame(DATA, END_STREAM, 1, body))
    assert answer.flags == END_HEADERS | END_STREAM
    told = wire.told([answer])
    assert (told[":status"], told["grpc-status"]) == ("200", str(int(code)))
    assert told["grpc-accept-encoding"] == "identity"
    assert wire.events == []


def test_a_client_that_could_compress_need_not() -> None:
    wire = Wire()
    wire.send(request(1, b"hello", GZIP))
    assert [event.message for event in wire.events if isinstance(event, Request)] == [b"hello"]


@pytest.mark.parametrize(
    "fields",
    [
        [(":method", "GET"), *HEAD[1:]],
        [*HEAD[:-1], ("content-type", "application/json")],
        HEAD[:-1],
    ],
    ids=["another method", "another type", "no type"],
)
def test_what_is_no_call_of_grpc_is_of_an_unsupported_media_type(fields: Fields) -> None:
    wire = Wire()
    (answer,) = wire.send(headers(1, fields, flags=END_HEADERS | END_STREAM))
    assert (wire.told([answer]), answer.flags) == ({":status": "415"}, END_HEADERS | END_STREAM)


def test_a_long_body_of_what_is_no_call_is_not_waited_for() -> None:
    wire = Wire()
    said = wire.send(headers(1, HEAD[:-1]), frame(DATA, 0, 1, bytes(10_000)) * 2)
    assert wire.told(said) == {":status": "415"}
    assert (said[-1].kind, said[-1].code) == (RST_STREAM, ErrorCode.NO_ERROR)


def test_parts_of_large_messages_are_kept_within_bounds() -> None:
    """All streams of a connection could else hold a gigabyte."""
    wire = Wire()
    refused = 0
    for stream in range(1, 41, 2):
        data = MAX_MESSAGE.to_bytes(5) + bytes(16379)
        parts = [frame(DATA, 0, stream, data)] + [frame(DATA, 0, stream, bytes(16384))] * (
            MAX_MESSAGE // 16384 - 1
        )
        told = wire.told(wire.send(headers(stream), *parts))
        refused += told.get("grpc-status") == str(int(Code.RESOURCE_EXHAUSTED))
    assert refused == 20 - MAX_BODIES // MAX_MESSAGE
    wire.send(frame(DATA, END_STREAM, 1, bytes(5)))
    assert [len(event.message) for event in wire.events if isinstance(event, Request)] == [MAX_MESSAGE]
