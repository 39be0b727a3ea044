"""gofish, a Redfish client in Go, sees what the driver made on the emulator."""

import asyncio
import json
import os
import shutil
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from dradriver_fabric_cxl.emulator.resources.fabric import system_uuid
from dradriver_fabric_cxl.emulator.resources.paths import TASKS
from dradriver_fabric_cxl.fabric.redfish import CredentialFiles, RedfishSettings, open_redfish
from tests.drivers.fabric_cxl.emulator.processes import CHUNKS, PASSWORD, USER, EmulatorProcess
from tests.drivers.fabric_cxl.fabric_suite import PACE, find_attachments, request_memory

GO = shutil.which("go")
SOURCE = Path(__file__).with_name("gofish")
pytestmark = [pytest.mark.skipif(GO is None, reason="Go is not installed"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the Go program."""
    assert GO is not None
    target = tmp_path_factory.mktemp("go") / "walker"
    environment = os.environ | {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    subprocess.run([GO, "build", "-o", str(target), "."], cwd=SOURCE, env=environment, check=True)
    return target


async def test_gofish_sees_a_chunk_a_connection_and_a_running_task(walker: Path, tmp_path: Path) -> None:
    emulator = EmulatorProcess(tmp_path)
    (tmp_path / "user").write_text(USER)
    async with emulator.running() as client:
        credentials = CredentialFiles(tmp_path / "user", tmp_path / "password")
        settings = RedfishSettings(client.url, credentials, tmp_path / "tls.crt", pace=PACE)
        async with open_redfish(settings) as fabric:
            request = await request_memory(fabric, host=1, chunks=2)
            await fabric.attach(request)
            # gofish v0.20.0 takes `CreatedResources` of a completed task for strings, and fails at a reference.
            for path in await client.members(TASKS):
                await client.send("DELETE", path)
            await client.fail(method="POST", path=".*/MemoryChunks", task_state="never ends")
            other = await request_memory(fabric)
            attaching = asyncio.create_task(fabric.attach(other))
            while not await find_attachments(fabric, other):
                await asyncio.sleep(0.01)
            process = await asyncio.create_subprocess_exec(
                walker, client.url, USER, PASSWORD, tmp_path / "tls.crt", stdout=PIPE, stderr=PIPE
            )
            output, errors = await process.communicate()
            assert not attaching.done()
            attaching.cancel()
            await asyncio.gather(attaching, return_exceptions=True)
    assert process.returncode == 0, errors.decode()
    found = json.loads(output)
    assert found["Systems"] == {f"host-{number}": system_uuid(f"host-{number}") for number in range(1, 5)}
    assert found["Domains"] == {"domain-1": [65536, 256, 256], "domain-2": [65536, 256, 256]}
    assert "host-2" in found["Endpoints"]
    identity = request.identity
    made = {"Name": identity.tag, "Description": identity.description, "State": "Enabled", "MiB": 512}
    assert found["Chunks"] == [made]
    (device,) = found["Devices"]
    assert (device["Chunk"], device["MiB"]) == (identity.tag, 512)
    (connection,) = found["Connections"]
    assert connection == {
        "Name": identity.tag,
        "Type": "Memory",
        "State": "Enabled",
        "Chunk": identity.tag,
        "Initiator": "host-2",
        "Target": "memory-domain-1",
    }
    (task,) = found["Tasks"]
    assert (task["State"], task["Operation"], task["Target"]) == ("Running", "POST", CHUNKS)
    body = json.loads(task["Body"])
    assert (body["Name"], body["Description"]) == (other.identity.tag, other.identity.description)
    assert body["MemoryChunkSizeMiB"] == 256
