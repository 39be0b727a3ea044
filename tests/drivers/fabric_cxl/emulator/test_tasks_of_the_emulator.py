"""Work is a task with a monitor, and fails on demand."""

import json
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from dradriver_fabric_cxl.emulator.resources.paths import TASKS
from tests.drivers.fabric_cxl.emulator.processes import CHUNKS, Client, EmulatorProcess, chunk


async def test_a_request_returns_a_task_that_has_the_request(emulator: EmulatorProcess) -> None:
    emulator.options = ["--latency", "60"]
    async with emulator.running() as client:
        answer = await client.send("POST", CHUNKS, chunk("dra-1"))
        assert (answer.status, answer.headers["Retry-After"]) == (202, "1")
        (path,) = await client.members(TASKS)
        task = await client.get(path)
        assert task["TaskState"] == "Running"
        assert task["TaskMonitor"] == answer.headers["Location"]
        assert (task["Payload"]["HttpOperation"], task["Payload"]["TargetUri"]) == ("POST", CHUNKS)
        assert json.loads(task["Payload"]["JsonBody"]) == chunk("dra-1")
        assert await client.members(CHUNKS) == []


async def test_a_completed_task_names_what_it_created(client: Client) -> None:
    answer = await client.finish(await client.send("POST", CHUNKS, chunk("dra-1")))
    assert (answer.status, answer.body["Name"]) == (201, "dra-1")
    (path,) = await client.members(TASKS)
    task = await client.get(path)
    assert task["TaskState"] == "Completed"
    assert task["Links"]["CreatedResources"] == [{"@odata.id": answer.headers["Location"]}]


async def test_a_task_can_be_deleted(client: Client) -> None:
    await client.make_chunk()
    (path,) = await client.members(TASKS)
    assert (await client.send("DELETE", path)).status == 204
    assert await client.members(TASKS) == []


@pytest.mark.parametrize("state", ["Exception", "Cancelled"])
@pytest.mark.parametrize("work", [True, False])
async def test_a_task_ends_badly_on_demand(client: Client, state: str, work: bool) -> None:
    await client.fail(method="POST", path=".*/MemoryChunks", task_state=state, work=work)
    answer = await client.finish(await client.send("POST", CHUNKS, chunk()))
    assert answer.status == 500
    (path,) = await client.members(TASKS)
    task = await client.get(path)
    assert (task["TaskState"], task["TaskStatus"]) == (state, "Critical")
    assert len(await client.members(CHUNKS)) == work


async def test_a_task_never_ends_on_demand(client: Client) -> None:
    await client.fail(method="POST", path=".*/MemoryChunks", task_state="never ends")
    first = await client.send("POST", CHUNKS, chunk("never"))
    await client.make_chunk("second")
    assert (await client.send("GET", first.headers["Location"])).status == 202
    (path,) = await client.members(CHUNKS)
    assert (await client.get(path))["Name"] == "second"


async def test_a_task_is_lost_on_demand(client: Client) -> None:
    await client.fail(method="POST", path=".*/MemoryChunks", task_state="lost")
    answer = await client.send("POST", CHUNKS, chunk())
    assert answer.status == 202
    assert (await client.send("GET", answer.headers["Location"])).status == 404
    assert await client.members(TASKS) == []


async def test_a_request_fails_on_demand_as_often_as_asked(client: Client) -> None:
    date = "Sun, 22 Nov 2026 21:00:00 GMT"
    await client.fail(method="POST", path=".*/MemoryChunks", status=503, times=2, retry_after=date)
    for _ in range(2):
        answer = await client.send("POST", CHUNKS, chunk())
        assert answer.status == 503
        assert parsedate_to_datetime(answer.headers["Retry-After"]).year == 2026
    await client.make_chunk()


async def test_failures_are_forgotten_on_demand(client: Client) -> None:
    await client.fail(path=".*", status=503, times=100)
    assert (await client.send("DELETE", "/emulator/faults", login=False)).status == 204
    await client.make_chunk()


@pytest.mark.parametrize(
    "fault", [{}, {"path": "("}, {"path": "x", "status": 200}, {"path": "x", "unknown": 1}]
)
async def test_a_failure_that_is_not_valid_is_refused(client: Client, fault: dict[str, object]) -> None:
    assert (await client.send("POST", "/emulator/faults", fault, login=False)).status == 400


async def test_an_answer_is_lost_on_demand_and_the_work_is_done(client: Client) -> None:
    await client.fail(method="POST", path=".*/MemoryChunks", lose_answer=True)
    with pytest.raises(aiohttp.ClientError):
        await client.send("POST", CHUNKS, chunk("dra-1"))
    (path,) = await client.members(TASKS)
    task = await client.get(path)
    assert json.loads(task["Payload"]["JsonBody"])["Name"] == "dra-1"
    await client.make_chunk("second")
    names = [(await client.get(each))["Name"] for each in await client.members(CHUNKS)]
    assert names == ["dra-1", "second"]
