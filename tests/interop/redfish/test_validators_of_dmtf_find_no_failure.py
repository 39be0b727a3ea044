"""DMTF's validators find no failure in the emulator: of its HTTP, and of its resources against the schemas."""

import csv
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCELERATOR_ENDPOINT,
    CONNECTIONS,
    DOMAINS,
    ENDPOINTS,
    link,
)
from tests.drivers.fabric_cxl.emulator.processes import CHUNKS, PASSWORD, USER, Client, EmulatorProcess, chunk

SCHEMAS = Path(os.environ.get("REDFISH_SCHEMAS") or Path(__file__).parents[4] / "shared/redfish/csdl")
"""DMTF's schemas: the folder `csdl` of the archive DSP8010."""
MINUTES = 10
LEAST_PASSED = 300
"""Fewer checks mean that a validator could not read the emulator, or no longer checks it."""


def program(module: str) -> list[str]:
    """Return the command that runs a validator."""
    return [sys.executable, "-c", f"from {module}.console_scripts import main; main()"]


def run(command: list[str], folder: Path) -> str:
    """Run a validator, and return what it writes."""
    # These variables replace the certificate of --ca-bundle.
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CA_BUNDLE")}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60 * MINUTES
    )
    return done.stdout + done.stderr


@pytest.fixture
async def emulator(tmp_path: Path) -> EmulatorProcess:
    return EmulatorProcess(tmp_path)


@pytest.fixture
async def client(emulator: EmulatorProcess) -> AsyncIterator[Client]:
    """A fabric with a connected chunk, a connected accelerator, and a task in each state."""
    async with emulator.running() as client:
        path = await client.make_chunk("dra-1")
        await client.connect(path)
        request = {
            "Links": {
                "InitiatorEndpoints": [link(f"{ENDPOINTS}/host-2")],
                "TargetEndpoints": [link(ACCELERATOR_ENDPOINT)],
            }
        }
        await client.finish(await client.send("POST", CONNECTIONS, request))
        for state in ("Exception", "Cancelled", "never ends"):
            await client.fail(method="POST", path=".*/MemoryChunks", task_state=state)
            answer = await client.send("POST", CHUNKS, chunk("dra-2"))
            if state != "never ends":
                await client.finish(answer)
        health = {"path": f"{DOMAINS}/domain-2", "health": "Warning"}
        await client.send("POST", "/emulator/health", health, login=False)
        yield client


def test_the_protocol_validator_finds_no_failure(client: Client, emulator: EmulatorProcess) -> None:
    command = [
        *program("redfish_protocol_validator"),
        "--user",
        USER,
        "--password",
        PASSWORD,
        "--rhost",
        client.url,
    ]
    command += ["--ca-bundle", str(emulator.folder / "tls.crt"), "--avoid-http-redirect"]
    output = run([*command, "--report-dir", "reports", "--report-type", "tsv"], emulator.folder)
    (report,) = (emulator.folder / "reports").glob("*.tsv")
    with report.open(newline="") as file:
        results = list(csv.DictReader(file, delimiter="\t"))
    bad = [result for result in results if result["Result"] in {"FAIL", "WARN"}]
    assert not bad, bad
    assert sum(result["Result"] == "PASS" for result in results) >= LEAST_PASSED, output


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason=f"{SCHEMAS} does not exist: set REDFISH_SCHEMAS")
def test_the_service_validator_finds_no_failure(client: Client, emulator: EmulatorProcess) -> None:
    command = [
        *program("redfish_service_validator"),
        "--user",
        USER,
        "--password",
        PASSWORD,
        "--rhost",
        client.url,
    ]
    command += ["--authtype", "Session", "--logdir", "logs", "--schema_directory", str(SCHEMAS), "--skipschema"]
    output = run(command, emulator.folder)
    counts = re.search(r"PASS +\|.*\n.*\n\| +(\d+) +\| +(\d+) +\| +(\d+) ", output)
    assert counts is not None, output
    passed, _, failed = map(int, counts.groups())
    assert failed == 0, output
    (log,) = (emulator.folder / "logs").glob("*/*.log")
    warnings = [line for line in log.read_text().splitlines() if " - WARN - " in line]
    assert not warnings
    assert passed >= LEAST_PASSED, output
