"""gofish, a Redfish client in Go, sees what clients of the emulator made."""

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
from tests.drivers.fabric_cxl.emulator.processes import CHUNKS, PASSWORD, USER, EmulatorProcess, chunk

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
    async with emulator.running() as client:
        await client.connect(await client.make_chunk("dra-1", 512), "host-2")
        # gofish v0.20.0 takes `CreatedResources` of a completed task for strings, and fails at a reference.
        for path in await client.members(TASKS):
            await client.send("DELETE", path)
        await client.fail(method="POST", path=".*/MemoryChunks", task_state="never ends")
        await client.send("POST", CHUNKS, chunk("dra-2"))
        process = await asyncio.create_subprocess_exec(
            walker, client.url, USER, PASSWORD, tmp_path / "tls.crt", stdout=PIPE, stderr=PIPE
        )
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    found = json.loads(output)
    assert found["Systems"] == {f"host-{number}": system_uuid(f"host-{number}") for number in range(1, 5)}
    assert found["Domains"] == {"domain-1": [65536, 256, 256], "domain-2": [65536, 256, 256]}
    assert "host-2" in found["Endpoints"]
    made = {"Name": "dra-1", "Description": "of dra-1", "State": "Enabled", "MiB": 512}
    assert found["Chunks"] == [made]
    (device,) = found["Devices"]
    assert (device["Chunk"], device["MiB"]) == ("dra-1", 512)
    (connection,) = found["Connections"]
    assert connection == {
        "Name": "connection",
        "Type": "Memory",
        "State": "Enabled",
        "Chunk": "dra-1",
        "Initiator": "host-2",
        "Target": "memory-domain-1",
    }
    (task,) = found["Tasks"]
    assert (task["State"], task["Operation"], task["Target"]) == ("Running", "POST", CHUNKS)
    assert json.loads(task["Body"]) == chunk("dra-2")
