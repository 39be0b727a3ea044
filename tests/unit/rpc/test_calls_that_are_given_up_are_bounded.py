"""A client that gives its calls up frees its streams, but not what its calls do."""

import asyncio

import grpc

from dradriver.rpc.settings import MAX_STREAMS
from tests.unit.rpc.served import Client, Served, eventually, refusal, text


async def give_up(served: Served, client: Client, count: int) -> None:
    """Calls that are cancelled and go on."""
    before = served.cancelled
    calls = [client.unary("Cling", text("")) for _ in range(count)]
    await eventually(lambda: served.waiting == before + count)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await eventually(lambda: served.cancelled == before + count)


async def test_as_many_as_a_connection_has_streams_are_no_hindrance(served: Served) -> None:
    async with served.dial() as client:
        await give_up(served, client, MAX_STREAMS)
        assert await client.unary("Say", text("next")) == text("next")


async def test_more_are_refused_until_some_have_ended(served: Served) -> None:
    async with served.dial() as client:
        await give_up(served, client, MAX_STREAMS)
        await give_up(served, client, 1)
        error = await refusal(client.unary("Say", text("")))
        assert (error.code(), error.details()) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "too many calls go on although they were cancelled",
        )
        served.gate.set()
        await eventually(lambda: not served.server.calls)
        assert await client.unary("Say", text("next")) == text("next")
