"""Flow control of answers (RFC 9113, sections 5.2 and 6.9)."""

from collections.abc import Sequence

from dradriver.rpc.connection import Sent
from dradriver.rpc.errors import Code
from tests.unit.rpc.wire import DATA, HEADERS, SETTINGS, Frame, Wire, frame, message, request, setting, window


def initial_window(size: int) -> bytes:
    return frame(SETTINGS, 0, 0, setting(4, size))


def data(said: Sequence[Frame]) -> bytes:
    return b"".join(one.payload for one in said if one.kind == DATA)


def test_with_a_window_of_0_the_fields_go_out_alone() -> None:
    wire = Wire()
    wire.send(initial_window(0), request(1))
    assert not wire.connection.send(1, b"answer")
    assert [one.kind for one in wire.read()] == [HEADERS]
    assert data(wire.send(window(100, 1))) == message(b"answer")
    assert wire.events[-1] == Sent(1)


def test_a_window_of_1_lets_byte_after_byte_out_and_the_trailers_last() -> None:
    wire = Wire()
    wire.send(initial_window(1), request(1))
    wire.connection.send(1, b"answer")
    wire.connection.end(1, Code.OK)
    said = wire.read()
    for _ in message(b"answer")[1:-1]:
        (byte,) = wire.send(window(1, 1))
        assert (byte.kind, byte.flags, len(byte.payload)) == (DATA, 0, 1)
        said.append(byte)
    said += wire.send(window(1, 1))
    assert data(said) == message(b"answer")
    assert [one.kind for one in said[-2:]] == [DATA, HEADERS]
    assert wire.told(said)["grpc-status"] == "0"


def test_a_smaller_initial_window_may_leave_less_than_nothing() -> None:
    wire = Wire()
    wire.send(initial_window(10), request(1))
    wire.connection.send(1, bytes(95))
    assert len(data(wire.read())) == 10
    assert data(wire.send(initial_window(0))) == b""
    assert data(wire.send(window(10, 1))) == b""
    assert len(data(wire.send(window(1, 1)))) == 1
    assert data(wire.send(initial_window(1))) == bytes(1)


def test_a_larger_initial_window_lets_open_streams_go_on() -> None:
    wire = Wire()
    wire.send(initial_window(0), request(1), request(3))
    for stream in (1, 3):
        wire.connection.send(stream, b"answer")
        wire.connection.end(stream, Code.OK)
    wire.read()
    assert data(wire.send(initial_window(1000))) == message(b"answer") * 2


def test_all_streams_share_the_window_of_the_connection() -> None:
    wire = Wire()
    wire.send(initial_window(2**31 - 1), request(1), request(3))
    for stream in (1, 3):
        wire.connection.send(stream, bytes(40_000))
    assert len(data(wire.read())) == 65535
    assert len(data(wire.send(window(1)))) == 1
    assert len(data(wire.send(window(100_000)))) == 80_010 - 65536


def test_no_frame_is_larger_than_the_client_takes() -> None:
    wire = Wire()
    wire.send(window(2**20), initial_window(2**20), request(1), request(3))
    wire.connection.send(1, bytes(50_000))
    assert max(len(one.payload) for one in wire.read()) == 16384
    wire.send(frame(SETTINGS, 0, 0, setting(5, 40_000)))
    wire.connection.send(3, bytes(50_000))
    assert [len(one.payload) for one in wire.read() if one.kind == DATA] == [40_000, 10_005]


def test_a_stream_that_is_reset_gives_nothing_of_the_connections_window_away() -> None:
    wire = Wire()
    wire.send(initial_window(2**20), request(1), request(3))
    wire.connection.send(1, bytes(100_000))
    wire.connection.send(3, b"answer")
    assert len(data(wire.read())) == 65535
    said = wire.send(frame(3, 0, 1, bytes(4)), window(1000))
    assert data(said) == message(b"answer")
