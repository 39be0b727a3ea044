"""`dradriver up --reload` restarts a driver whose code changed. Its prepared claim and its pod stay."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dradriver.cli import main
from dradriver.cli.manifests.generated import generate_manifests
from dradriver.kube import CLASSES, PODS, SLICES, TEMPLATES, Cache, Client
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node import node_status
from tests.cluster.helpers import running, until

pytestmark = pytest.mark.timeout(180)

DRIVER = """\
import dradriver as dra

class LedDriver(dra.Driver):
    name = "led.example.com"

    def discover(self):
        return [dra.Device(f"led-{number}") for number in range(DEVICES)]

    def prepare(self, claim):
        return {led: dra.ContainerEdits(env={"LED": "on"}) for led in claim.devices}
"""
NAME = "live_led:LedDriver"
RESOURCES = {each.kind: each for each in (CLASSES, TEMPLATES, PODS)}


class Up:
    """A process of `dradriver up`, whose output is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process, data: Path) -> None:
        self.process = process
        self.data = data
        self.lines: list[str] = []

    async def line(self, pattern: str) -> str:
        """Wait for a line that contains the pattern. The test's time limit applies."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        pytest.fail(f"no {pattern!r} in:\n{''.join(self.lines)}")


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of the driver, which the processes can import."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, sys.path)]))
    path = folder / "live_led.py"
    path.write_text(DRIVER.replace("DEVICES", "1"))
    return path


@pytest.fixture
async def up(tmp_path: Path, code: Path) -> AsyncIterator[Up]:
    data = tmp_path / "data"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dradriver.cli", "up", "--data", str(data), "--fresh", "--reload"),
        *("--driver", NAME, "--runtime", "process"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Up(process, data)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def replace_file(path: Path, text: str) -> None:
    """Replace a file at once: nobody reads it while it is empty."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


async def has_device(client: Client, name: str) -> None:
    async with Cache(client, SLICES, ResourceSlice) as slices, aclosing(slices.changes()) as changes:
        await slices.wait_synced()
        while not any(device.name == name for each in slices.items.values() for device in each.spec.devices):
            await anext(changes)


async def test_a_driver_is_reloaded_while_its_claim_stays_prepared(up: Up, code: Path) -> None:
    apply = await up.line(r"manifests .* \| kubectl apply -f -")
    assert f" manifests {NAME} | kubectl" in apply
    await up.line("Press Ctrl-C to stop")
    async with await Client.connect(str(up.data / "kubeconfig")) as client:
        for body in yaml.safe_load_all(generate_manifests("led.example.com")):
            resource = RESOURCES[body["kind"]]
            await client.create(resource, body, "default" if resource.namespaced else "", into=dict)
        await until(client, running("led-1"))
        folder = up.data / "nodes/node-1/plugins/led.example.com"
        (before,) = node_status(folder).claims

        replace_file(code, DRIVER.replace("DEVICES", "2").replace("):", ")"))
        refused = await up.line(r"^\d\d:\d\d:\d\d driver \S+ is not restarted, although live_led.py")
        assert "SyntaxError" in refused
        replace_file(code, DRIVER.replace("DEVICES", "2"))
        await up.line(r"^\d\d:\d\d:\d\d driver \S+ on node-1 is restarted: live_led.py changed")
        await up.line(r"^\d\d:\d\d:\d\d driver \S+ on node-1 is ready again")

        await has_device(client, "led-1")
        assert list(node_status(folder).claims) == [before]
        await until(client, running("led-1"))
    command = ["up", "logs", NAME, "--data", str(up.data)]
    log = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert log.stdout.count("driver led.example.com starts on node node-1") == 2
    up.process.terminate()
    await up.line(r"^\d\d:\d\d:\d\d stopping the containers; the state stays in ")
    assert await up.process.wait() == 0
