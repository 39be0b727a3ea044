"""Whatever a client sends, in whatever pieces: the laws of the gRPC server's connections."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.rpc.connection import Connection, Event
from tests.properties.http2_client import Pair
from tests.unit.rpc.wire import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    headers,
    literal,
    message,
    setting,
    window,
)

GREETING: Final = PREFACE + frame(SETTINGS)

BLOCKS: Final = st.one_of(
    st.sampled_from((literal(HEAD), literal(HEAD)[:9], literal([("a", "b")]), b"\xbe\x82")),
    st.binary(max_size=40),
)
PAYLOADS: Final = st.one_of(
    BLOCKS,
    st.sampled_from(
        (b"", bytes(4), bytes(5), bytes(8), message(b"hello"), b"\x00\x00\x7f\xff\xff", bytes(16384))
    ),
    st.builds(setting, st.integers(1, 7), st.integers(0, 2**32 - 1)),
)
STREAMS: Final = st.integers(0, 9)
WRONG: Final = st.builds(frame, st.integers(0, 10), st.integers(0, 255), STREAMS, PAYLOADS)

BODIES: Final = st.sampled_from(
    (b"", message(b""), message(b"hello"), message(b"hello") * 2, bytes((1,)) + bytes(9))
)
RIGHT: Final[Mapping[str, Callable[[int, bytes], bytes]]] = {
    "a request": lambda stream, body: headers(stream) + frame(DATA, END_STREAM, stream, body),
    "half a request": lambda stream, _: headers(stream),
    "no body": lambda stream, _: headers(stream, flags=END_HEADERS | END_STREAM),
    "a malformed request": lambda stream, _: headers(stream, HEAD[1:]),
    "some body": lambda stream, body: frame(DATA, 0, max(stream - 2, 1), body),
    "the rest": lambda stream, body: frame(DATA, END_STREAM, max(stream - 2, 1), body),
    "a change of mind": lambda stream, _: frame(RST_STREAM, 0, max(stream - 2, 1), bytes(4)),
    "a window": lambda stream, body: window(1 + len(body), max(stream - 2, 0)),
    "a smaller window": lambda _, body: frame(SETTINGS, 0, 0, setting(4, len(body))),
    "a ping": lambda *_: frame(PING, 0, 0, bytes(8)),
}
NEW: Final = frozenset({"a request", "half a request", "no body", "a malformed request"})


def in_order(sent: Sequence[tuple[str, bytes]], wrong: Mapping[int, bytes], end: bytes) -> bytes:
    """Frames on streams that follow each other, with some that are wrong in between."""
    data, stream = GREETING, 1
    for number, (what, body) in enumerate(sent):
        data += RIGHT[what](stream, body) + wrong.get(number, b"")
        stream += 2 * (what in NEW)
    return data + end


FRAMES: Final = st.builds(
    in_order,
    st.lists(st.tuples(st.sampled_from((*RIGHT, *["a request"] * 5)), BODIES), min_size=10, max_size=40),
    st.dictionaries(st.integers(0, 30), WRONG, max_size=2),
    st.binary(max_size=40),
)


def heard(data: bytes, pieces: Sequence[int]) -> tuple[list[Event], bytes, bool]:
    """What a connection makes of bytes that come in pieces of these sizes, and then in one."""
    connection = Connection()
    events: list[Event] = []
    said = connection.take()
    for size in (*pieces, len(data)):
        events += connection.receive(data[:size])
        said += connection.take()
        data = data[size:]
    return events, said, connection.broken


@settings(max_examples=300)
@given(st.one_of(FRAMES, FRAMES, st.binary(max_size=400)), st.lists(st.integers(1, 60), max_size=40))
def test_no_bytes_break_a_connection_and_its_words_are_bounded_and_the_same_however_they_are_cut(
    data: bytes, pieces: Sequence[int]
) -> None:
    whole = heard(data, ())
    assert len(whole[1]) <= 1000 + 10 * len(data)
    assert heard(data, pieces) == whole
    assert heard(data, (1,) * len(data[:2000])) == whole


def send_all(pair: Pair, stream: int) -> None:
    while (call := pair.calls[stream]).unsent and not call.reset:
        pair.send(stream, len(call.unsent))
        pair.exchange()


STEPS: Final[Mapping[str, Callable[[Pair, int, int, Random], None]]] = {
    "ask": lambda pair, _, size, texts: pair.ask(texts.randbytes(size)),
    "send": lambda pair, stream, size, _: pair.send(stream, size),
    "send padded": lambda pair, stream, size, _: pair.send(stream, size, padding=size % 256),
    "send all": lambda pair, stream, *_: send_all(pair, stream),
    "reset": lambda pair, stream, *_: pair.reset(stream),
    "answer": lambda pair, stream, size, texts: pair.answer(stream, texts.randbytes(size)),
    "end": lambda pair, stream, *_: pair.end(stream),
    "open the connection": lambda pair, _, size, __: pair.open(max(size, 1), 0),
    "open": lambda pair, stream, size, _: pair.open(max(size, 1), stream),
    "window": lambda pair, _, size, __: pair.window(size),
    "largest frame": lambda pair, _, size, __: pair.largest_frame(16_384 + size),
    "exchange": lambda pair, *_: pair.exchange(),
}
SIZES: Final = st.sampled_from((0, 1, 2, 100, 16_379, 16_384, 70_000, 300_000))


@settings(max_examples=150)
@given(
    st.sampled_from((0, 1, 65_535, 2**20, 2**20)),
    st.lists(SIZES, min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(tuple(STEPS)), st.integers(0, 5), SIZES), min_size=20, max_size=60),
    st.integers(0, 2**32),
)
def test_every_request_comes_once_and_whole_and_every_answer_in_order_and_no_credit_is_overdrawn(
    window: int, requests: Sequence[int], steps: Sequence[tuple[str, int, int]], seed: int
) -> None:
    pair, texts = Pair(), Random(seed)
    pair.window(window)
    for size in requests:
        pair.ask(texts.randbytes(size))
        send_all(pair, 1)
    for step, number, size in steps:
        STEPS[step](pair, tuple(pair.calls)[number % len(pair.calls)], size, texts)
    pair.exchange()
    pair.window(2**24)
    pair.open(2**24, 0)
    for stream in pair.calls:
        send_all(pair, stream)
        pair.end(stream)
    pair.exchange()
    for stream, call in pair.calls.items():
        if call.reset:
            assert pair.answered.get(stream, b"").startswith(call.answer)
        else:
            assert (call.ended, call.fields[b"grpc-status"]) == (True, b"0")
            assert pair.asked[stream] == call.request
            assert (call.answer, stream in pair.kept_back) == (pair.answered.get(stream, b""), False)
