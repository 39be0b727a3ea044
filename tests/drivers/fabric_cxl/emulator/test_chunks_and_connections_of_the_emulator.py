"""Memory is cut into chunks, and a chunk is connected to one host."""

import asyncio
import re

import pytest

from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCELERATOR_ENDPOINT,
    CONNECTIONS,
    DOMAINS,
    ENDPOINTS,
    SYSTEMS,
    link,
)
from tests.drivers.fabric_cxl.emulator.processes import CHUNKS, Client, EmulatorProcess, chunk, connection


async def test_a_chunk_has_the_name_of_its_request_and_a_device_with_a_serial_number(client: Client) -> None:
    path = await client.make_chunk("dra-1", 512)
    body = await client.get(path)
    assert (body["Name"], body["Description"], body["MemoryChunkSizeMiB"]) == ("dra-1", "of dra-1", 512)
    assert body["Status"]["State"] == "Enabled"
    device = await client.get(body["Links"]["CXLLogicalDevices"][0]["@odata.id"])
    assert device["Links"]["MemoryChunks"] == [link(path)]
    (identifier,) = device["Identifiers"]
    assert identifier["DurableNameFormat"] == "GCXLID"
    assert re.fullmatch(r"([0-9a-f]{2}-){7}[0-9a-f]{2}:0000", identifier["DurableName"])
    domain = await client.get(f"{DOMAINS}/domain-1")
    assert domain["Links"]["CXLLogicalDevices"] == [link(device["@odata.id"])]


async def test_two_chunks_have_two_serial_numbers(client: Client) -> None:
    names = set()
    for path in (await client.make_chunk(), await client.make_chunk()):
        device = (await client.get(path))["Links"]["CXLLogicalDevices"][0]["@odata.id"]
        names.add((await client.get(device))["Identifiers"][0]["DurableName"])
    assert len(names) == 2


@pytest.mark.parametrize(
    ("mebibytes", "status"), [(None, 400), (100, 400), (384, 400), (70000 // 256 * 256, 507)]
)
async def test_a_chunk_that_the_domain_cannot_give_is_refused(
    client: Client, mebibytes: int | None, status: int
) -> None:
    answer = await client.send("POST", CHUNKS, {"MemoryChunkSizeMiB": mebibytes})
    assert answer.status == status
    assert await client.members(CHUNKS) == []


async def test_a_domain_gives_no_more_than_it_has(emulator: EmulatorProcess) -> None:
    emulator.options = ["--domain-mib", "512", "512"]
    async with emulator.running() as client:
        path = await client.make_chunk(mebibytes=512)
        assert (await client.send("POST", CHUNKS, chunk())).status == 507
        await client.finish(await client.send("DELETE", path))
        await client.make_chunk(mebibytes=512)


async def test_a_connection_is_seen_from_both_ends(client: Client) -> None:
    path = await client.make_chunk()
    made = await client.connect(path, "host-2")
    body = await client.get(made)
    assert body["MemoryChunkInfo"][0]["MemoryChunk"] == link(path)
    assert body["Status"]["State"] == "Enabled"
    endpoint = await client.get(f"{ENDPOINTS}/host-2")
    assert endpoint["Links"]["Connections"] == [link(made)]


async def test_a_chunk_is_connected_to_one_host_only(client: Client) -> None:
    path = await client.make_chunk()
    await client.connect(path, "host-1")
    answer = await client.send("POST", CONNECTIONS, connection(path, "host-2"))
    assert (answer.status, answer.message) == (409, "ResourceInUse")


async def test_two_requests_at_once_connect_a_chunk_to_one_host_only(emulator: EmulatorProcess) -> None:
    # Work is done one after another: both are accepted while the hardware of an earlier request is not ready.
    ready = emulator.folder / "ready"
    emulator.hook = f"until [ -e '{ready}' ]; do sleep 0.01; done"
    async with emulator.running() as client:
        path, another = await client.make_chunk(), await client.make_chunk()
        earlier = await client.send("POST", CONNECTIONS, connection(another, "host-3"))
        begun = await asyncio.gather(
            *(client.send("POST", CONNECTIONS, connection(path, host)) for host in ("host-1", "host-2"))
        )
        ready.touch()
        assert (await client.finish(earlier)).status == 201
        made, refused = sorted([await client.finish(each) for each in begun], key=lambda each: each.status)
        assert made.status == 201
        assert (refused.status, refused.message) == (409, "ResourceInUse")


async def test_a_connected_chunk_is_not_deleted(client: Client) -> None:
    path = await client.make_chunk()
    made = await client.connect(path)
    answer = await client.send("DELETE", path)
    assert (answer.status, answer.message) == (409, "ResourceInUse")
    assert (await client.finish(await client.send("DELETE", made))).status == 204
    assert (await client.finish(await client.send("DELETE", path))).status == 204
    assert (await client.send("DELETE", path)).status == 404


async def test_a_host_has_a_limit_of_connections(emulator: EmulatorProcess) -> None:
    emulator.options = ["--host-attachments", "1"]
    async with emulator.running() as client:
        await client.connect(await client.make_chunk())
        answer = await client.send("POST", CONNECTIONS, connection(await client.make_chunk()))
        assert (answer.status, answer.message) == (507, "CreateLimitReachedForResource")


async def test_hosts_have_endpoints_that_name_their_systems(client: Client) -> None:
    uuids = set()
    for host in ("host-1", "host-2", "host-3", "host-4"):
        endpoint = await client.get(f"{ENDPOINTS}/{host}")
        (entity,) = endpoint["ConnectedEntities"]
        assert entity["EntityLink"] == link(f"{SYSTEMS}/{host}")
        uuids.add((await client.get(f"{SYSTEMS}/{host}"))["UUID"])
    assert len(uuids) == 4


async def test_the_accelerator_is_connected_to_one_host(client: Client) -> None:
    request = {
        "Links": {
            "InitiatorEndpoints": [link(f"{ENDPOINTS}/host-3")],
            "TargetEndpoints": [link(ACCELERATOR_ENDPOINT)],
        }
    }
    answer = await client.finish(await client.send("POST", CONNECTIONS, request))
    assert answer.body["Links"]["TargetEndpoints"] == [link(ACCELERATOR_ENDPOINT)]
    assert (await client.send("POST", CONNECTIONS, request)).status == 409


@pytest.mark.parametrize(
    "request_body",
    [
        {},
        {"Links": {"InitiatorEndpoints": [link(f"{ENDPOINTS}/host-9")]}, "MemoryChunkInfo": []},
        {"Links": {"InitiatorEndpoints": "host-1"}},
        {"Links": {"InitiatorEndpoints": [link(f"{ENDPOINTS}/host-1")]}},
        {"Links": {"InitiatorEndpoints": [link(ACCELERATOR_ENDPOINT)]}},
        connection(f"{CHUNKS}/99"),
    ],
)
async def test_a_connection_needs_a_host_and_a_device(client: Client, request_body: dict[str, object]) -> None:
    answer = await client.send("POST", CONNECTIONS, request_body)
    assert answer.status == 400, answer


async def test_a_manager_that_keeps_no_names_returns_its_own(emulator: EmulatorProcess) -> None:
    emulator.options = ["--no-names"]
    async with emulator.running() as client:
        body = await client.get(await client.make_chunk("dra-1"))
        assert body["Name"] != "dra-1"
        assert "Description" not in body


@pytest.mark.parametrize(
    ("answers", "status", "has_location", "has_body", "deleted"),
    [("created", 201, True, True, 204), ("ok", 200, False, True, 200), ("no-content", 204, True, False, 204)],
)
async def test_managers_differ_in_their_answers(
    emulator: EmulatorProcess, answers: str, status: int, has_location: bool, has_body: bool, deleted: int
) -> None:
    emulator.options = ["--answers", answers]
    async with emulator.running() as client:
        answer = await client.send("POST", CHUNKS, chunk("dra-1"))
        assert (answer.status, "Location" in answer.headers, bool(answer.body)) == (
            status,
            has_location,
            has_body,
        )
        (path,) = await client.members(CHUNKS)
        assert (await client.send("DELETE", path)).status == deleted
        assert await client.members(CHUNKS) == []
