"""Changes of resources are sent as events: over a stream, and to subscribers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from dradriver_fabric_cxl.emulator.resources.paths import CONNECTIONS, EVENT_STREAM, SUBSCRIPTIONS
from tests.drivers.fabric_cxl.emulator.processes import AUTHORIZATION, CHUNKS, Client


@asynccontextmanager
async def open_stream(client: Client) -> AsyncIterator[aiohttp.StreamReader]:
    """Open the stream of events, once its first line has come."""
    async with client.session.get(client.url + EVENT_STREAM, headers=AUTHORIZATION) as response:
        assert response.content_type == "text/event-stream"
        assert await response.content.readline() == b": stream of events\n"
        yield response.content


async def read_until(stream: aiohttp.StreamReader, message: str, below: str) -> dict[str, Any]:
    """Read events until one has the message for a resource below the URI; return its record."""
    while True:
        line = await stream.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            (record,) = json.loads(line.removeprefix(b"data: "))["Events"]
            if record["MessageId"].endswith(message) and record["OriginOfCondition"]["@odata.id"].startswith(
                below
            ):
                return dict(record)


async def test_the_stream_has_each_change(client: Client) -> None:
    async with open_stream(client) as stream:
        path = await client.make_chunk()
        record = await read_until(stream, "ResourceCreated", CHUNKS)
        assert record["OriginOfCondition"] == {"@odata.id": path}
        made = await client.connect(path)
        await read_until(stream, "ResourceChanged", made)
        await client.finish(await client.send("DELETE", made))
        await read_until(stream, "ResourceRemoved", CONNECTIONS)


async def test_the_stream_has_the_health_of_a_resource(client: Client) -> None:
    path = await client.make_chunk()
    async with open_stream(client) as stream:
        body = {"path": path, "health": "Critical"}
        assert (await client.send("POST", "/emulator/health", body, login=False)).status == 204
        await read_until(stream, "ResourceStatusChangedCritical", path)
    assert (await client.get(path))["Status"]["Health"] == "Critical"


async def test_a_stream_is_a_subscription_that_ends_with_it(client: Client) -> None:
    async with open_stream(client):
        (path,) = await client.members(SUBSCRIPTIONS)
        assert (await client.get(path))["SubscriptionType"] == "SSE"
    async with open_stream(client) as stream:
        subscriptions = [each for each in await client.members(SUBSCRIPTIONS) if each != path]
        assert (await client.send("DELETE", subscriptions[0])).status == 204
        while await stream.readline():
            pass
    while await client.members(SUBSCRIPTIONS):
        await asyncio.sleep(0.01)


async def test_a_subscriber_gets_events_until_it_unsubscribes(client: Client) -> None:
    received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def receive(request: web.BaseRequest) -> web.Response:
        received.put_nowait(await request.json())
        return web.Response()

    runner = web.ServerRunner(web.Server(receive))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        body = {
            "Protocol": "Redfish",
            "Destination": f"http://127.0.0.1:{runner.addresses[0][1]}",
            "Context": "c",
        }
        made = await client.send("POST", SUBSCRIPTIONS, body)
        assert made.status == 201
        await client.make_chunk()
        event = await received.get()
        assert (event["Context"], event["@odata.type"].partition(".")[0]) == ("c", "#Event")
        assert (await client.send("DELETE", made.headers["Location"])).status == 204
    finally:
        await runner.cleanup()


async def test_a_subscription_that_is_not_supported_is_refused(client: Client) -> None:
    assert (
        await client.send("POST", SUBSCRIPTIONS, {"Protocol": "FTP", "Destination": "ftp://x"})
    ).status == 400
    assert (await client.send("POST", SUBSCRIPTIONS, {"Protocol": "Redfish", "Destination": "x"})).status == 400
