"""How a server ends: new calls go elsewhere, those in flight end, nothing is left."""

import asyncio
import logging
import socket

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from dradriver.rpc import Server
from tests.unit.rpc.served import Served, eventually, refusal, text


async def test_calls_in_flight_end_and_new_ones_go_elsewhere(served: Served) -> None:
    async with served.dial() as client:
        call = asyncio.ensure_future(client.unary("Wait", text("old")))
        await eventually(lambda: served.waiting == 1)
        served.server.leave()
        served.path.unlink(missing_ok=True)
        error = await refusal(client.unary("Say", text("new")))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        served.gate.set()
        assert await call == text("old")
        await asyncio.wait(served.server.calls or {asyncio.ensure_future(asyncio.sleep(0))})


async def test_an_answer_that_the_clients_windows_keep_back_is_in_flight_until_it_has_gone_out(
    served: Served,
) -> None:
    answer = BytesValue(value=bytes(3_000_000))
    async with served.dial() as client:
        call = asyncio.ensure_future(client.unary("Wait", answer))
        await eventually(lambda: served.waiting == 1)
        served.server.leave()
        served.gate.set()
        await eventually(lambda: not served.server.calls)
        await served.server.close()
        assert await call == answer


async def test_calls_that_do_not_end_are_unavailable(served: Served) -> None:
    async with served.dial() as client:
        call = client.unary("Wait", text(""))
        await eventually(lambda: served.waiting == 1)
        await served.server.close()
        error = await refusal(call)
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "the server is stopping")
    assert served.cancelled == 1


async def test_calls_that_are_cancelled_from_outside_are_unavailable(served: Served) -> None:
    async with served.dial() as client:
        call = client.unary("Wait", text(""))
        await eventually(lambda: served.waiting == 1)
        for task in served.server.calls:
            task.cancel()
        error = await refusal(call)
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "the server is stopping")


async def test_a_handler_that_does_not_end_is_cancelled_once_and_keeps_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dradriver.rpc.server._CLOSE_SECONDS", 0.05)
    async with served.dial() as client:
        call = client.unary("Cling", text(""))
        await eventually(lambda: served.waiting == 1)
        await served.server.close()
        await served.server.close()
        assert (await refusal(call)).code() == grpc.StatusCode.UNAVAILABLE
    assert (served.cancelled, served.waiting, len(served.server.calls)) == (1, 1, 1)
    served.gate.set()
    await eventually(lambda: not served.server.calls)


async def test_calls_whose_client_vanished_are_waited_for(served: Served) -> None:
    async with served.dial() as client:
        client.unary("Cling", text("")).add_done_callback(lambda _: None)
        await eventually(lambda: served.waiting == 1)
    await eventually(lambda: served.cancelled == 1)
    assert len(served.server.calls) == 1
    served.gate.set()
    await eventually(lambda: not served.server.calls)


async def test_many_calls_may_lose_their_client_without_a_word_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with served.dial() as client:
            for _ in range(20):
                client.unary("Cling", text("")).add_done_callback(lambda _: None)
            await eventually(lambda: served.waiting == 20)
        await eventually(lambda: served.cancelled == 20)
        served.gate.set()
        await eventually(lambda: not served.server.calls)
    assert caplog.text == ""


async def test_a_connection_that_comes_with_the_end_is_not_kept(served: Served) -> None:
    """The kernel had accepted it before."""
    ours, theirs = socket.socketpair()
    served.server.leave()
    loop = asyncio.get_running_loop()
    await loop.create_connection(served.server.accept, sock=ours)
    theirs.setblocking(False)
    with theirs:
        assert await loop.sock_recv(theirs, 1) == b""


async def test_a_server_that_never_listened_may_be_closed() -> None:
    await Server({}).close()
