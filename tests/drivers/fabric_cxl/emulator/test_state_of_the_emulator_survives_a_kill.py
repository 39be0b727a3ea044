"""A kill at any moment leaves a valid state, and the work that was accepted continues."""

import asyncio
import os
import random
from pathlib import Path

import aiohttp
import pytest

from dradriver_fabric_cxl.emulator.resources.paths import CONNECTIONS, TASKS
from tests.drivers.fabric_cxl.emulator.processes import CHUNKS, Client, EmulatorProcess, chunk, connection

KILLS = int(os.environ.get("KILLS", "12")) // 4
"""`make faults` sets more."""


async def wait_for_tasks(client: Client) -> None:
    """Wait until no task runs."""
    for path in await client.members(TASKS):
        while (await client.get(path))["TaskState"] == "Running":
            await asyncio.sleep(0.01)


async def test_a_chunk_whose_task_was_killed_is_made_once(emulator: EmulatorProcess) -> None:
    emulator.options = ["--latency", "60"]
    async with emulator.running() as client:
        answer = await client.send("POST", CHUNKS, chunk("dra-1"))
        await emulator.kill()
    emulator.options = []
    async with emulator.running() as client:
        assert (await client.finish(answer)).status == 201
        (path,) = await client.members(CHUNKS)
        assert (await client.get(path))["Name"] == "dra-1"
    async with emulator.running() as client:
        assert await client.members(CHUNKS) == [path]


@pytest.mark.parametrize("answers", ["task", "created"])
async def test_a_connection_that_was_killed_within_its_hook_is_made_once(
    emulator: EmulatorProcess, answers: str
) -> None:
    entered = emulator.folder / "entered"
    os.mkfifo(entered)
    emulator.options = ["--answers", "created"]
    async with emulator.running() as client:
        path = (await client.send("POST", CHUNKS, chunk())).headers["Location"]
    emulator.options = ["--answers", answers]
    # Opening the pipe waits for the test, which then knows that the hook runs.
    emulator.hook = f"echo entered > {entered}; exec sleep 1000"
    async with emulator.running() as client:
        posting = asyncio.create_task(client.send("POST", CONNECTIONS, connection(path)))
        await asyncio.to_thread(Path.read_text, entered)
        await emulator.kill()
        await asyncio.gather(posting, return_exceptions=True)
    emulator.hook = "exit 0"
    async with emulator.running() as client:
        (made,) = await client.members(CONNECTIONS)
        while (await client.get(made))["Status"]["State"] != "Enabled":
            await asyncio.sleep(0.01)
        assert await client.members(CONNECTIONS) == [made]
    first, second = emulator.calls
    assert first == second
    assert (first["operation"], first["host"], first["connection"]) == ("connect", "host-1", made)


async def test_a_disconnection_that_was_killed_within_its_hook_is_made(emulator: EmulatorProcess) -> None:
    entered = emulator.folder / "entered"
    os.mkfifo(entered)
    async with emulator.running() as client:
        made = await client.connect(await client.make_chunk())
    emulator.hook = f"echo entered > {entered}; exec sleep 1000"
    async with emulator.running() as client:
        assert (await client.send("DELETE", made)).status == 202
        await asyncio.to_thread(Path.read_text, entered)
        assert (await client.get(made))["Status"]["State"] == "Disabled"
        await emulator.kill()
    emulator.hook = "exit 0"
    async with emulator.running() as client:
        await wait_for_tasks(client)
        assert await client.members(CONNECTIONS) == []
    assert [call["operation"] for call in emulator.calls] == ["disconnect", "disconnect"]


@pytest.mark.timeout(60 + 5 * KILLS)
async def test_kills_at_random_moments_leave_each_chunk_at_most_once(emulator: EmulatorProcess) -> None:
    chance = random.Random(1)
    accepted: set[str] = set()

    async def post(client: Client, name: str) -> None:
        if (await client.send("POST", CHUNKS, chunk(name))).status == 202:
            accepted.add(name)

    async def post_many(client: Client, life: int) -> None:
        for number in range(1000):
            await post(client, f"dra-{life}-{number}")

    emulator.options = ["--domain-mib", str(1 << 30)]
    for life in range(KILLS):
        async with emulator.running() as client:
            posting = asyncio.create_task(post_many(client, life))
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            await emulator.kill()
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await posting
    async with emulator.running() as client:
        await wait_for_tasks(client)
        names = [(await client.get(path))["Name"] for path in await client.members(CHUNKS)]
    assert len(names) == len(set(names))
    assert accepted <= set(names)


@pytest.mark.timeout(60 + 5 * KILLS)
async def test_kills_at_random_moments_leave_hardware_and_connections_the_same(
    emulator: EmulatorProcess,
) -> None:
    chance = random.Random(2)

    async def move(client: Client) -> None:
        """Connect and disconnect the chunk, to one host after the other."""
        for number in range(1000):
            await disconnect(client)
            await client.send("POST", CONNECTIONS, connection(path, f"host-{number % 4 + 1}"))
            await wait_for_tasks(client)

    async def disconnect(client: Client) -> None:
        for made in await client.members(CONNECTIONS):
            # 404: the previous life was killed within the deletion, which has continued meanwhile.
            if (answer := await client.send("DELETE", made)).status != 404:
                await client.finish(answer)

    emulator.hook = "exit 0"
    async with emulator.running() as client:
        path = await client.make_chunk()
    for _ in range(KILLS):
        async with emulator.running() as client:
            moving = asyncio.create_task(move(client))
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            await emulator.kill()
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await moving
    async with emulator.running() as client:
        await wait_for_tasks(client)
        left = [await client.get(made) for made in await client.members(CONNECTIONS)]
    connected: dict[str, str] = {}
    for call in emulator.calls:
        if call["operation"] == "connect":
            # The same call comes again after a kill. No other host has the memory then.
            assert connected in ({}, {call["device"]: call["host"]})
            connected[call["device"]] = call["host"]
        else:
            connected.pop(call["device"], None)
    hosts = [body["Links"]["InitiatorEndpoints"][0]["@odata.id"].rpartition("/")[2] for body in left]
    assert hosts == list(connected.values())
