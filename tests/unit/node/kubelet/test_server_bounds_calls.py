"""The number of calls in flight is limited: on each connection, and in total with canceled ones."""

import asyncio

import grpc

from dradriver.node.kubelet.server import MAX_STREAMS
from tests.unit.node.kubelet.served import Client, Served, eventually, refusal, text


async def give_up(served: Served, client: Client, count: int) -> None:
    """Calls that continue after their cancellation."""
    before = served.cancelled
    calls = [client.unary("Cling", text("")) for _ in range(count)]
    await eventually(lambda: served.waiting == before + count)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await eventually(lambda: served.cancelled == before + count)


async def test_calls_beyond_the_streams_of_a_connection_wait_in_the_client(served: Served) -> None:
    """A stream may be rejected while another one ends; Go's client retries it."""
    async with served.dial() as client:
        calls = [asyncio.ensure_future(client.unary("Wait", text(str(n)))) for n in range(MAX_STREAMS + 50)]
        await eventually(lambda: served.waiting == MAX_STREAMS)
        served.gate.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert {error.code() for error in refused if isinstance(error, grpc.aio.AioRpcError)} <= {
        grpc.StatusCode.UNAVAILABLE
    }
    assert served.most == MAX_STREAMS
    assert len(outcomes) - len(refused) >= MAX_STREAMS


async def test_canceled_calls_that_continue_block_no_others_up_to_the_limit(served: Served) -> None:
    async with served.dial() as client:
        await give_up(served, client, MAX_STREAMS)
        assert await client.unary("Say", text("next")) == text("next")


async def test_calls_beyond_the_limit_are_rejected_until_others_have_ended(served: Served) -> None:
    async with served.dial() as first, served.dial() as second, served.dial() as third:
        for client in (first, second):
            await give_up(served, client, MAX_STREAMS)
        error = await refusal(third.unary("Say", text("")))
        assert (error.code(), error.details()) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "Concurrent RPC limit exceeded!",
        )
        served.gate.set()
        await eventually(lambda: not served.calls)
        assert await third.unary("Say", text("next")) == text("next")
