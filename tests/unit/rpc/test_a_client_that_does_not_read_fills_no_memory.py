"""A client that does not read is not listened to until it does, and what is said to it does not pile up."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tests.unit.rpc.served import Served, eventually
from tests.unit.rpc.wire import (
    END_STREAM,
    HEAD,
    PING,
    PREFACE,
    SETTINGS,
    frame,
    headers,
    message,
    setting,
    window,
)

GREETING = PREFACE + frame(SETTINGS, 0, 0, setting(4, 2**31 - 1)) + window(2**31 - 65536)
COUNT = [(":method", "POST"), (":scheme", "http"), (":path", "/test.Echo/Count"), *HEAD[3:]]


@pytest.fixture
def client(served: Served) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(served.path))
        client.setblocking(False)
        yield client


async def push(client: socket.socket, data: bytes) -> int:
    """Sends until nobody takes more; how many bytes were taken."""
    taken = idle = 0
    while idle < 50 and taken < 1_000_000_000:
        try:
            taken += client.send(data)
            idle = 0
        except BlockingIOError:
            idle += 1
        await asyncio.sleep(0)
    return taken


async def read_on(client: socket.socket) -> None:
    while True:
        await asyncio.get_running_loop().sock_recv(client, 2**20)


@pytest.mark.parametrize(
    "flood",
    [frame(PING, 0, 0, bytes(8)), frame(SETTINGS)],
    ids=["PING", "SETTINGS"],
)
async def test_a_flood_stops_when_its_answers_are_not_read(
    served: Served, client: socket.socket, flood: bytes
) -> None:
    await asyncio.get_running_loop().sock_sendall(client, GREETING)
    assert await push(client, flood * 1000) < 5_000_000


async def test_a_stream_waits_for_a_client_that_reads(served: Served, client: socket.socket) -> None:
    """Whatever its windows let out."""
    served.answers = 10**9
    call = headers(1, COUNT) + frame(0, END_STREAM, 1, message(b"\x0a\x04abcd"))
    await asyncio.get_running_loop().sock_sendall(client, GREETING + call)
    await eventually(lambda: served.told > 0)
    before = served.told
    assert before < 5000
    reading = asyncio.create_task(read_on(client))
    await eventually(lambda: served.told > before)
    reading.cancel()
    await asyncio.wait({reading})
    client.close()
    await eventually(lambda: not served.server.calls)


async def test_it_can_be_left(served: Served, client: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dradriver.rpc.server._CLOSE_SECONDS", 0.05)
    await asyncio.get_running_loop().sock_sendall(client, GREETING)
    await push(client, frame(PING, 0, 0, bytes(8)) * 1000)
    await served.server.close()
    with pytest.raises(ConnectionResetError):
        await read_on(client)
