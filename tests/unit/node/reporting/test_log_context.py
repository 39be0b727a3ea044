"""Each call of the kubelet is one line at level debug; users' configuration is in no line."""

import asyncio
import logging
from pathlib import Path

import pytest

from dradriver.wire import dra_v1
from dradriver.wire.stubs import dra_v1_grpc
from tests.unit.node.plugin_world import Node, dial, prepare, request
from tests.unit.node.world import LampDriver, allocated

CONFIG = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","color":"a secret"}'
WRONG = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","color":["a secret"]}'
UNKNOWN = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","colour":"a secret"}'


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture(autouse=True)
def debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "dradriver")  # another test may have started a log


def lines(caplog: pytest.LogCaptureFixture, end: str) -> list[str]:
    found = [record for record in caplog.records if f": {end}" in record.getMessage()]
    return [record.getMessage() for record in found if record.levelno == logging.DEBUG]


async def test_a_call_is_one_line_with_its_claims_and_their_results(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    good, gone = node.api.add(allocated("good", "lamp-0")), allocated("gone", "lamp-1")
    async with node.running() as plugin:
        await prepare(plugin, good, gone)
        await prepare(plugin, good)
        async with dial(plugin.sockets.service) as channel:
            await dra_v1_grpc.DRAPluginStub(channel).NodeUnprepareResources(
                dra_v1.NodeUnprepareResourcesRequest(claims=request(good).claims)
            )
    first, second, third = lines(caplog, "answered")
    assert first.startswith("prepare-1: answered after ")
    assert f"default/good (UID {good.metadata.uid}): ok" in first
    assert f"default/gone (UID {gone.metadata.uid}): error" in first
    assert second.startswith("prepare-2: ")
    assert third.startswith("unprepare-3: ")


async def test_work_that_continues_is_reported_as_in_progress(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    driver = LampDriver(node.hardware)
    driver.gate = asyncio.Event()
    async with node.running(driver, prepare_deadline=0.05) as plugin:
        await prepare(plugin, claim)
        driver.gate.set()
    (line,) = lines(caplog, "answered")
    assert line.endswith(": in progress")


@pytest.mark.parametrize("parameters", [CONFIG, WRONG, UNKNOWN])
async def test_opaque_configuration_is_in_no_line(
    parameters: bytes, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    claim = node.api.add(allocated("claim", "lamp-0", parameters=parameters))
    async with node.running() as plugin:
        await prepare(plugin, claim)
    assert lines(caplog, "answered")
    assert "secret" not in caplog.text
