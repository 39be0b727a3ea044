"""A peer that is silent, does not read, or sends what it should not, is bounded and harms no other one."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dradriver.node.kubelet import server as server_module
from dradriver.node.kubelet.server import MAX_MESSAGE
from tests.unit.node.kubelet.http2_bytes import (
    CONTINUATION,
    DATA,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    SETTINGS,
    frame,
    head,
    headers,
    message,
    request,
    setting,
    window,
)
from tests.unit.node.kubelet.served import Served, eventually, serving, text

LARGEST_WINDOWS = frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW_SIZE, 2**31 - 1)) + window(2**31 - 65536)
GREETING = PREFACE + LARGEST_WINDOWS


@pytest.fixture
def client(served: Served) -> Iterator[socket.socket]:
    with connected(served.path) as client:
        yield client


def connected(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.setblocking(False)
    return client


async def send(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)


async def push(client: socket.socket, data: bytes) -> int:
    """Send until the server reads no more, and return the number of bytes that were sent."""
    taken = idle = 0
    while idle < 50 and taken < 1_000_000_000:
        try:
            taken += client.send(data)
            idle = 0
        except BlockingIOError:
            idle += 1
            await asyncio.sleep(0.001)  # the server reads in threads of its own
        else:
            await asyncio.sleep(0)
    return taken


async def read_to_the_end(client: socket.socket) -> None:
    """Reads until the server has closed the connection."""
    with contextlib.suppress(ConnectionResetError):
        while await asyncio.get_running_loop().sock_recv(client, 2**20):
            pass


async def assert_served(served: Served) -> None:
    async with served.dial() as client:
        assert await client.unary("Say", text("next"), wait_for_ready=True) == text("next")


@pytest.fixture
async def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    option = "grpc.server_handshake_timeout_ms"
    assert server_module._OPTIONS[option] == 10_000
    monkeypatch.setitem(server_module._OPTIONS, option, 50)
    async with serving(tmp_path / "impatient") as served:
        yield served


@pytest.mark.parametrize("first", [b"", PREFACE[:5], PREFACE], ids=["nothing", "half a preface", "a preface"])
async def test_a_connection_that_stays_silent_is_closed(impatient: Served, first: bytes) -> None:
    with connected(impatient.path) as client:
        with contextlib.suppress(BrokenPipeError):  # if its time is over before it sends
            await send(client, first)
        await read_to_the_end(client)
    await assert_served(impatient)


async def test_a_connection_may_be_idle_after_the_handshake(impatient: Served) -> None:
    async with impatient.dial() as client:
        await client.unary("Say", text("first"), wait_for_ready=True)  # connects again after a slow handshake
        with connected(impatient.path) as silent:
            await read_to_the_end(silent)  # its time is over, and the client's would be too
        assert await client.unary("Say", text("second")) == text("second")


@pytest.mark.parametrize(
    "wrong",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        PREFACE + bytes(1000),
        GREETING + b"\xff" * 100,
        GREETING + frame(DATA, 0, 0, bytes(16385)),
        GREETING + frame(HEADERS, 0x4, 1, b"\x80"),
        GREETING + frame(CONTINUATION, 0x4, 1, b""),
    ],
    ids=["HTTP/1.1", "zeros", "ones", "a frame too long", "a field of no table's", "CONTINUATION of nothing"],
)
async def test_a_connection_that_breaks_the_protocol_is_closed(
    served: Served, client: socket.socket, wrong: bytes
) -> None:
    await send(client, wrong)
    await read_to_the_end(client)
    await assert_served(served)


async def test_a_message_that_announces_too_much_is_not_waited_for(
    served: Served, client: socket.socket
) -> None:
    """The call ends before its body has come."""
    await send(client, GREETING + headers(1, head("Wait")))
    await send(client, frame(DATA, 0, 1, b"\x00" + (MAX_MESSAGE + 1).to_bytes(4)))
    received = b""
    while b"larger than max" not in received:
        received += await asyncio.get_running_loop().sock_recv(client, 2**16)
    assert served.waiting == 0
    await assert_served(served)


async def test_half_a_request_delays_no_other_call(served: Served, client: socket.socket) -> None:
    await send(client, GREETING + headers(1, head("Say")) + frame(DATA, 0, 1, message(b"abcd")[:-1]))
    await assert_served(served)
    client.close()
    await assert_served(served)


@pytest.mark.parametrize("flood", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS)], ids=["PING", "SETTINGS"])
async def test_a_flood_stops_when_its_answers_are_not_read(
    served: Served, client: socket.socket, flood: bytes
) -> None:
    await send(client, GREETING)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # or the server ends the connection
        assert await push(client, flood * 1000) < 5_000_000
    await assert_served(served)


async def test_a_stream_waits_for_a_client_that_reads(served: Served, client: socket.socket) -> None:
    """Whatever its windows let out."""
    served.answers = 10**9
    await send(client, GREETING + request(1, "Count", b"\x0a\x04abcd"))
    await eventually(lambda: served.produced > 0)
    before = -1
    while before != served.produced:
        before = served.produced
        await asyncio.sleep(0.05)
    assert before < 5000
    reading = asyncio.create_task(read_to_the_end(client))
    await eventually(lambda: served.produced > before)
    reading.cancel()
    await asyncio.wait({reading})
    client.close()
    await eventually(lambda: not served.calls)


async def test_a_client_that_does_not_read_keeps_no_stop(
    served: Served, client: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_CLOSE_SECONDS", 0.05)
    served.answers = 10**9
    await send(client, GREETING + request(1, "Count", b"\x0a\x04abcd"))
    await eventually(lambda: served.produced > 0)
    await served.server.stop(0)
    await read_to_the_end(client)
    await eventually(lambda: not served.calls)
