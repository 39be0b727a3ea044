"""The end of a server: new calls go to another one, those in flight end, no answer is cut."""

import asyncio
import logging
from pathlib import Path

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from dradriver.aio import tasks
from dradriver.node.kubelet import server as server_module
from dradriver.node.kubelet.server import SocketServer
from tests.unit.node.kubelet.served import Served, eventually, refusal, text

LONG = 3600


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_SECONDS", 0.05)
    monkeypatch.setattr(server_module, "_CLOSE_SECONDS", 0.5)


async def test_calls_in_flight_end_and_new_ones_go_to_another_server(served: Served) -> None:
    async with served.dial() as client:
        call = asyncio.ensure_future(client.unary("Wait", text("old")))
        await eventually(lambda: served.waiting == 1)
        stopping = asyncio.create_task(served.server.stop(LONG))
        await eventually(lambda: not served.path.exists())
        # grpcio cancels a call that reaches it before its client knows that the server leaves.
        await eventually(lambda: client.channel.get_state() is not grpc.ChannelConnectivity.READY)
        error = await refusal(client.unary("Say", text("new")))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        served.gate.set()
        assert await call == text("old")
        await stopping


async def test_calls_during_the_stop_are_answered_or_unavailable(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is cut: a kubelet that reads UNAVAILABLE calls again."""
    # The server waits until no call arrives for three rounds, which grpcio's threads, of which some are the
    # client's here, may exceed on a busy machine.
    monkeypatch.setattr(server_module, "_ROUND_SECONDS", 0.5)
    async with served.dial() as client:
        calls = [asyncio.ensure_future(client.unary("Say", text(str(n)))) for n in range(200)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await served.server.stop(LONG)
        for number, outcome in enumerate(await asyncio.gather(*calls, return_exceptions=True)):
            if isinstance(outcome, grpc.aio.AioRpcError):
                assert outcome.code() == grpc.StatusCode.UNAVAILABLE
            else:
                assert outcome == text(str(number))


async def test_an_answer_that_the_clients_window_delays_is_in_flight_until_it_is_sent(
    served: Served,
) -> None:
    answer = BytesValue(value=bytes(3_000_000))
    async with served.dial() as client:
        call = asyncio.ensure_future(client.unary("Wait", answer))
        await eventually(lambda: served.waiting == 1)
        stopping = asyncio.create_task(served.server.stop(LONG))
        served.gate.set()
        assert await call == answer
        await stopping


async def test_calls_that_do_not_end_are_unavailable(served: Served) -> None:
    async with served.dial() as client:
        call = client.unary("Wait", text(""))
        await eventually(lambda: served.waiting == 1)
        await served.server.stop(0)
        error = await refusal(call)
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "the server is stopping")
    assert served.cancelled == 1


async def test_streams_that_do_not_end_are_unavailable(served: Served) -> None:
    served.answers = 10**9
    async with served.dial() as client:
        call = client.stream(text(""))
        await call.read()
        await served.server.stop(0)

        async def read_on() -> None:
            while await call.read():
                pass

        error = await refusal(read_on())
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "the server is stopping")
    assert not served.calls


async def test_idle_connections_do_not_delay_a_stop(served: Served) -> None:
    async with served.dial() as client:
        await client.unary("Say", text(""))
        await served.server.stop(LONG)
    assert not served.path.exists()


async def test_a_handler_that_does_not_end_is_abandoned(
    served: Served, impatience: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.dial() as client:
        call = client.unary("Cling", text(""))
        await eventually(lambda: served.waiting == 1)
        await served.server.stop(0)
        await served.server.stop(0)
        await refusal(call)
    assert (served.waiting, len(served.calls)) == (1, 1)
    assert "/test.Echo/Cling] ignores its cancellation" in caplog.text
    served.gate.set()
    await eventually(lambda: not served.calls)


async def test_a_stop_waits_for_calls_whose_client_vanished(served: Served) -> None:
    async with served.dial() as client:
        client.unary("Cling", text("")).add_done_callback(lambda _: None)
        await eventually(lambda: served.waiting == 1)
    await eventually(lambda: served.cancelled == 1)
    assert len(served.calls) == 1
    stopping = asyncio.create_task(served.server.stop(LONG))
    await eventually(lambda: not served.path.exists())
    assert not stopping.done()
    served.gate.set()
    await stopping
    assert not served.calls


async def test_many_calls_may_lose_their_client_without_a_log_line(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.answers = 10**9
    with caplog.at_level(logging.WARNING):
        async with served.dial() as client:
            for _ in range(20):
                client.unary("Cling", text("")).add_done_callback(lambda _: None)
                client.unary("Wait", text("")).add_done_callback(lambda _: None)
                client.stream(text("a")).add_done_callback(lambda _: None)
            await eventually(lambda: served.waiting == 40)
        await eventually(lambda: served.cancelled == 40)
        served.gate.set()
        await eventually(lambda: not served.calls)
    assert [record for record in caplog.records if record.name.startswith(("dradriver", "grpc"))] == []


async def test_a_server_that_never_listened_may_be_stopped(tmp_path: Path) -> None:
    await SocketServer(tmp_path / "socket", {}).stop(0)
