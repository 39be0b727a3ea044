"""What is sent to a manager, and how often."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web

from dradriver_fabric_cxl.fabric import (
    AttachRequest,
    AttachTimedOutError,
    FabricError,
    FabricHealth,
    FabricPace,
    ManagerUnreachableError,
    NoCapacityError,
    RequestRefusedError,
    TagNotKeptError,
)
from dradriver_fabric_cxl.fabric.redfish import RedfishFabric, open_redfish
from dradriver_fabric_cxl.pools.attach_errors import to_attach_error
from tests.drivers.fabric_cxl.fabric.redfish.tiny_manager import (
    V1,
    Answer,
    TinyManager,
    answer,
    cut,
    link,
    members,
)
from tests.drivers.fabric_cxl.fabric_suite import request_memory

CHUNKS, CONNECTIONS, TASKS = f"{V1}/Chunks", f"{V1}/Connections", f"{V1}/Tasks"


class Waits(list[float]):
    """The pauses of a fabric. They take no time."""

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)

    def clock(self) -> float:
        return sum(self)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def fabric(manager: TinyManager, waits: Waits) -> AsyncIterator[RedfishFabric]:
    pace = FabricPace(sleep=waits.sleep, clock=waits.clock)
    async with open_redfish(manager.files.settings(manager.url, pace)) as fabric:
        yield fabric


def add_chunk(manager: TinyManager, request: AttachRequest, **status: str) -> None:
    manager.resources[CHUNKS] = members(f"{CHUNKS}/1")
    manager.resources[f"{CHUNKS}/1"] = {
        "Name": request.identity.tag,
        "Description": request.identity.description,
        "MemoryChunkSizeMiB": 256,
        "Status": {"State": "Enabled", "Health": "OK"} | status,
    }


def add_connection(manager: TinyManager, request: AttachRequest) -> None:
    manager.resources[CONNECTIONS] = members(f"{CONNECTIONS}/1")
    manager.resources[f"{CONNECTIONS}/1"] = {
        "Name": request.identity.tag,
        "Description": request.identity.description,
        "MemoryChunkInfo": [{"MemoryChunk": link(f"{CHUNKS}/1")}],
        "Links": {"InitiatorEndpoints": [link(f"{V1}/Endpoints/h")]},
    }


async def test_a_chunk_whose_answer_was_lost_is_looked_up(manager: TinyManager, fabric: RedfishFabric) -> None:
    request = await request_memory(fabric)

    def make_and_cut(http: web.Request) -> web.StreamResponse:
        add_chunk(manager, request)
        add_connection(manager, request)
        return cut(http)

    manager.answers["POST", CHUNKS].append(make_and_cut)
    assert (await fabric.attach(request)).connected
    assert manager.count("POST", CHUNKS) == 1


async def test_a_task_whose_answer_was_lost_is_found_by_its_payload(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    request = await request_memory(fabric)
    manager.resources[f"{V1}/"]["Tasks"] = link(f"{V1}/TaskService")
    manager.resources[f"{V1}/TaskService"] = {"Tasks": link(TASKS)}
    manager.resources[TASKS] = members(f"{TASKS}/1")
    await fabric.inventory()
    body = {"Name": request.identity.tag, "Description": request.identity.description}
    payload = {"TargetUri": CHUNKS, "JsonBody": json.dumps(body)}
    manager.resources[f"{TASKS}/1"] = {
        "TaskState": "Running",
        "TaskMonitor": f"{TASKS}/1/Monitor",
        "Payload": payload,
    }

    def complete(_: web.Request) -> web.StreamResponse:
        add_chunk(manager, request)
        add_connection(manager, request)
        manager.resources[f"{TASKS}/1"]["TaskState"] = "Completed"
        return web.json_response({}, status=204)

    running = answer(202, Retry_After="4")
    manager.answers["GET", f"{TASKS}/1/Monitor"] += [running, running, complete]
    assert [each.connected for each in await fabric.attachments()] == [False]
    assert (await fabric.attach(request)).connected
    assert manager.count("POST", CHUNKS) == 0


@asynccontextmanager
async def open_with_late_objects(
    manager: TinyManager, waits: Waits, number: int
) -> AsyncIterator[tuple[RedfishFabric, AttachRequest]]:
    """Yield a fabric and a request whose objects appear during the wait with this number."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == number:
            add_chunk(manager, request)
            add_connection(manager, request)

    pace = FabricPace(sleep=sleep, clock=waits.clock)
    async with open_redfish(manager.files.settings(manager.url, pace)) as fabric:
        request = await request_memory(fabric)
        yield fabric, request


async def test_an_object_that_appears_long_after_a_lost_answer_is_not_asked_for_again(
    manager: TinyManager, waits: Waits
) -> None:
    async with open_with_late_objects(manager, waits, 20) as (fabric, request):
        manager.answers["POST", CHUNKS].append(answer(500))
        assert (await fabric.attach(request)).connected
    assert manager.count("POST", CHUNKS) == 1


async def test_lost_answers_are_no_failure_of_the_device(
    manager: TinyManager, fabric: RedfishFabric, waits: Waits
) -> None:
    request = await request_memory(fabric)
    manager.answers["POST", CHUNKS] += [answer(500)] * 1000
    with pytest.raises(ManagerUnreachableError, match="HTTP 500") as failed:
        await fabric.attach(request)
    assert not to_attach_error(failed.value).device_is_bad
    assert manager.count("POST", CHUNKS) == 2
    assert sum(waits) == 300


@pytest.mark.parametrize("status", [201, 204])
async def test_an_object_without_a_location_is_looked_for(
    manager: TinyManager, waits: Waits, status: int
) -> None:
    """The manager shows a new object only after some seconds."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 5:
            add_chunk(manager, request)
            add_connection(manager, request)

    pace = FabricPace(sleep=sleep, clock=waits.clock)
    async with open_redfish(manager.files.settings(manager.url, pace)) as fabric:
        request = await request_memory(fabric)
        manager.answers["POST", CHUNKS].append(answer(status))
        assert (await fabric.attach(request)).connected
    assert manager.count("POST", CHUNKS) == 1


async def test_an_object_that_never_appears_has_no_tag(
    manager: TinyManager, fabric: RedfishFabric, waits: Waits
) -> None:
    request = await request_memory(fabric)
    manager.answers["POST", CHUNKS].append(answer(204))
    with pytest.raises(TagNotKeptError):
        await fabric.attach(request)
    assert (manager.count("POST", CHUNKS), sum(waits)) == (1, 30)


def add_task(manager: TinyManager, **changes: object) -> None:
    manager.resources[f"{V1}/"]["Tasks"] = link(f"{V1}/TaskService")
    manager.resources[f"{V1}/TaskService"] = {"Tasks": link(TASKS)}
    manager.resources[TASKS] = members(f"{TASKS}/1")
    manager.resources[f"{TASKS}/1"] = {"TaskState": "Running", "TaskMonitor": f"{TASKS}/1/Monitor"} | changes


async def test_a_chunk_is_not_asked_for_again_while_the_monitor_of_its_task_fails(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    request = await request_memory(fabric)
    add_task(manager)
    monitor = f"{TASKS}/1/Monitor"

    def complete(_: web.Request) -> web.StreamResponse:
        add_chunk(manager, request)
        add_connection(manager, request)
        return web.json_response({}, status=204)

    manager.answers["POST", CHUNKS].append(answer(202, Location=monitor))
    manager.answers["GET", monitor] += [answer(502), answer(500), complete]
    assert (await fabric.attach(request)).connected
    assert manager.count("POST", CHUNKS) == 1


async def test_a_task_that_never_ends_is_not_waited_for_when_its_object_is_enabled(
    manager: TinyManager, waits: Waits
) -> None:
    async with open_with_late_objects(manager, waits, 3) as (fabric, request):
        manager.answers["POST", CHUNKS].append(answer(202, Location=f"{TASKS}/9"))
        manager.answers["GET", f"{TASKS}/9"] += [answer(202)] * 1000
        assert (await fabric.attach(request)).connected
    assert sum(waits) == 10


async def test_a_monitor_that_fails_with_its_task_is_asked_once(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    request = await request_memory(fabric)
    add_task(manager, TaskState="Exception", Messages=[{"Message": "The switch is hot."}])
    await fabric.inventory()
    monitor = f"{TASKS}/1/Monitor"
    manager.answers["POST", CHUNKS] += [answer(202, Location=monitor), answer(507)]
    manager.answers["GET", monitor] += [answer(500)] * 1000
    with pytest.raises(NoCapacityError):
        await fabric.attach(request)
    assert manager.count("GET", monitor) == 1


async def test_a_task_that_ended_is_read_again_only_after_the_manager_was_away(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    manager.resources[f"{V1}/"]["Tasks"] = link(f"{V1}/TaskService")
    manager.resources[f"{V1}/TaskService"] = {"Tasks": link(TASKS)}
    manager.resources[TASKS] = members(f"{TASKS}/1")
    manager.resources[f"{TASKS}/1"] = {"TaskState": "Completed"}
    for _ in range(3):
        await fabric.attachments()
    assert manager.count("GET", f"{TASKS}/1") == 1
    manager.answers["GET", TASKS] += [cut, cut]  # aiohttp repeats a GET once
    with pytest.raises(ManagerUnreachableError):
        await fabric.attachments()
    await fabric.attachments()
    assert manager.count("GET", f"{TASKS}/1") == 2


async def test_a_canceled_attach_ends_after_the_answer_of_its_post(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    """So the next detach sees what the manager made."""
    request = await request_memory(fabric)
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def make_late(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await go_on.wait()
        add_chunk(manager, request)
        return web.json_response({}, status=201, headers={"Location": f"{CHUNKS}/1"})

    manager.answers["POST", CHUNKS].append(make_late)
    attaching = asyncio.create_task(fabric.attach(request))
    await arrived.wait()
    attaching.cancel()
    await fabric.inventory()
    assert not attaching.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await attaching
    assert [each.identity for each in await fabric.attachments()] == [request.identity]


async def test_the_manager_sets_the_pace(manager: TinyManager, fabric: RedfishFabric, waits: Waits) -> None:
    request = await request_memory(fabric)
    manager.answers["POST", CHUNKS] += [
        answer(503, Retry_After="7"),
        answer(429),
        answer(503, Retry_After="0"),
        answer(202, Location=f"{TASKS}/9"),
    ]
    manager.answers["GET", f"{TASKS}/9"] += [answer(202, Retry_After="5"), answer(507)]
    with pytest.raises(FabricError, match="507"):
        await fabric.attach(request)
    assert waits == [7, 1, 1, 5]


async def test_a_chunk_is_waited_for_until_it_is_enabled(
    manager: TinyManager, fabric: RedfishFabric, waits: Waits
) -> None:
    request = await request_memory(fabric)
    add_chunk(manager, request, State="Starting")
    manager.answers["POST", CONNECTIONS].append(answer(400))

    async def enable(seconds: float) -> None:
        add_chunk(manager, request, State="Enabled")

    pace = FabricPace(sleep=enable, clock=waits.clock)
    async with open_redfish(manager.files.settings(manager.url, pace)) as other:
        with pytest.raises(RequestRefusedError):
            await other.attach(request)
    assert manager.count("POST", CONNECTIONS) == 1


async def test_an_error_that_is_over_does_not_hide_that_the_time_is_over(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    request = await request_memory(fabric)
    add_chunk(manager, request, State="Starting")
    manager.answers["GET", CHUNKS].append(answer(503))
    with pytest.raises(AttachTimedOutError):
        await fabric.attach(request)


async def test_an_error_before_a_task_that_never_ends_does_not_hide_that_the_time_is_over(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    request = await request_memory(fabric)
    manager.answers["POST", CHUNKS].append(answer(202, Location=f"{TASKS}/9"))
    manager.answers["GET", f"{TASKS}/9"] += [answer(503), *[answer(202)] * 1000]
    with pytest.raises(AttachTimedOutError):
        await fabric.attach(request)


async def test_an_object_is_deleted_only_as_it_was_read(manager: TinyManager, fabric: RedfishFabric) -> None:
    request = await request_memory(fabric)
    add_chunk(manager, request)

    def delete(_: web.Request) -> web.StreamResponse:
        manager.resources[CHUNKS] = members()
        return web.json_response({}, status=204)

    manager.answers["DELETE", f"{CHUNKS}/1"] += [answer(412), delete]
    await fabric.detach(request.identity.tag)
    deletions = [headers for method, _, headers in manager.requests if method == "DELETE"]
    assert [bool(headers["If-Match"]) for headers in deletions] == [True, True]


async def test_a_chunk_that_was_deleted_meanwhile_is_gone(manager: TinyManager, fabric: RedfishFabric) -> None:
    request = await request_memory(fabric)
    add_chunk(manager, request)

    def vanish(_: web.Request) -> web.StreamResponse:
        manager.resources[CHUNKS] = members()
        return web.json_response({}, status=404)

    manager.answers["DELETE", f"{CHUNKS}/1"].append(vanish)
    await fabric.detach(request.identity.tag)


async def test_what_did_not_change_is_not_transferred_again(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    first = await fabric.inventory()
    manager.requests.clear()
    assert await fabric.inventory() == first
    found = [headers for _, path, headers in manager.requests if path in manager.resources]
    assert found
    assert all("If-None-Match" in headers for headers in found)


async def test_collections_can_have_pages(manager: TinyManager, fabric: RedfishFabric) -> None:
    manager.resources[f"{V1}/Domains"]["Members@odata.nextLink"] = f"{V1}/Domains?page=2"
    manager.answers["GET", f"{V1}/Domains"] += [
        answer(200, manager.resources[f"{V1}/Domains"]),
        answer(200, members(f"{V1}/Domains/2", f"{V1}/Domains/gone")),
    ]
    manager.resources[f"{V1}/Domains/2"] = manager.resources[f"{V1}/Domains/1"] | {"Id": "2"}
    assert [domain.id for domain in (await fabric.inventory()).domains] == ["c-1", "c-2"]


async def test_ports_of_a_host_are_the_bridges_of_its_virtual_switch(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    (host,) = (await fabric.inventory()).hosts
    assert (host.id, host.system, host.max_attachments) == ("h", "0000000a-0000-4000-8000-000000000001", None)
    switch = f"{V1}/Switches/1"
    manager.resources |= {
        f"{V1}/Switches": members(switch),
        switch: {"CXL": {"VirtualCXLSwitches": link(f"{switch}/VCS")}},
        f"{switch}/VCS": members(f"{switch}/VCS/1"),
        f"{switch}/VCS/1": {
            "VPPBs": link(f"{switch}/VCS/1/VPPBs"),
            "Links": {"Endpoints": [link(f"{V1}/Endpoints/h")]},
        },
        f"{switch}/VCS/1/VPPBs": members("a", "b", "c"),
    }
    (host,) = (await fabric.inventory()).hosts
    assert host.max_attachments == 3


async def test_a_manager_without_events_is_looked_at(manager: TinyManager, waits: Waits) -> None:
    def sicken() -> None:
        manager.resources[f"{V1}/Domains/1"]["Status"] = {"Health": "Critical"}

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            sicken()

    pace = FabricPace(sleep=sleep, clock=waits.clock)
    async with (
        open_redfish(manager.files.settings(manager.url, pace)) as fabric,
        aclosing(fabric.changes()) as changes,
    ):
        await anext(changes)
        assert waits == []
        await anext(changes)
        assert waits == [10, 10, 10]
        assert (await fabric.inventory()).domains[0].health is FabricHealth.CRITICAL


async def test_events_are_received_after_a_line_that_is_too_long(
    manager: TinyManager, fabric: RedfishFabric, waits: Waits
) -> None:
    manager.resources[f"{V1}/"]["EventService"] = link(f"{V1}/EventService")
    manager.resources[f"{V1}/EventService"] = {"ServerSentEventUri": f"{V1}/Events"}

    def stream(*lines: bytes) -> Answer:
        async def send(http: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(http)
            for line in lines:
                await response.write(line)
            return response

        return send

    manager.answers["GET", f"{V1}/Events"] += [
        stream(b"data: " + b"x" * (1 << 20), b"\n\n"),
        stream(b"data: {}\n\n"),
    ]
    async with aclosing(fabric.changes()) as changes:
        for _ in range(4):  # at once, the first stream, the second stream, its event
            await anext(changes)
    assert manager.count("GET", f"{V1}/Events") == 2
    assert waits == [1]


async def test_one_of_several_fabrics_has_to_be_named(manager: TinyManager, fabric: RedfishFabric) -> None:
    manager.resources[f"{V1}/Fabrics"] = members()
    with pytest.raises(FabricError, match="the CXL fabric: the manager has 0; its fabrics: none"):
        await fabric.inventory()
