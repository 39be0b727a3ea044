"""Metadata that a driver learns after prepare is written to the files that containers read."""

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from dradriver.driver import DeviceMetadata, PreparedDevice
from dradriver.errors import DraError
from dradriver.model.resource.claim import NetworkData, ResourceClaim
from dradriver.node.claims import metadata_updates
from dradriver.node.errors import StateError
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.state.records import ClaimRecord
from tests.unit.node.plugin_world import Node, prepare
from tests.unit.node.world import DRIVER, NODE, LampDriver, allocated

NEWS = {(NODE, "lamp-0"): DeviceMetadata({"color": "green"}, NetworkData(ips=["10.0.0.7/24"]))}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def described(node: Node) -> LampDriver:
    """Returns metadata for each lamp but the last one."""
    driver = LampDriver(node.hardware)
    driver.answer = lambda device: PreparedDevice(metadata=None if device.name == "lamp-3" else {})
    return driver


def files(node: Node, claim: ResourceClaim) -> dict[str, dict[str, Any]]:
    """The content that a container reads in the newest version, by request."""
    folder = node.root / "plugins" / DRIVER / "dra-device-metadata" / claim.metadata.uid
    paths = folder.glob("*.json")
    return {
        path.stem: cast(dict[str, Any], msgspec.json.decode(path.read_text().splitlines()[0])) for path in paths
    }


async def test_the_file_of_the_request_is_of_the_next_generation(node: Node) -> None:
    claim, driver = node.api.add(allocated("claim", "lamp-0", "lamp-1")), described(node)
    async with node.running(driver) as plugin:
        await prepare(plugin, claim)
        before = files(node, claim)
        await driver.update_metadata(claim.metadata.uid, NEWS)
        await driver.update_metadata(claim.metadata.uid, NEWS)
        after = files(node, claim)
    assert [each["metadata"]["generation"] for each in before.values()] == [1, 1]
    assert after["request-0"]["metadata"]["generation"] == 3
    (device,) = after["request-0"]["requests"][0]["devices"]
    assert device["attributes"] == {"color": {"string": "green"}}
    assert device["networkData"]["ips"] == ["10.0.0.7/24"]
    assert after["request-1"] == before["request-1"]


async def test_a_device_may_be_given_as_in_the_claim(node: Node) -> None:
    claim, driver = node.api.add(allocated("claim", "lamp-0")), described(node)
    given = []

    def answer(device: Any) -> PreparedDevice:
        given.append(device)
        return PreparedDevice(metadata={"color": "red"})

    driver.answer = answer
    async with node.running(driver) as plugin:
        await prepare(plugin, claim)
        await driver.update_metadata(claim.metadata.uid, {given[0]: DeviceMetadata({"color": "green"})})
    (request,) = files(node, claim).values()
    assert request["requests"][0]["devices"][0]["attributes"] == {"color": {"string": "green"}}


async def test_a_lost_file_is_written_again_with_the_last_update(node: Node) -> None:
    claim, driver = node.api.add(allocated("claim", "lamp-0")), described(node)
    async with node.running(driver) as plugin:
        await prepare(plugin, claim)
        await driver.update_metadata(claim.metadata.uid, NEWS)
    written = files(node, claim)
    for path in (node.root / "plugins" / DRIVER / "dra-device-metadata").glob("*/*"):
        path.unlink()
    async with node.running(described(node)) as plugin:
        await prepare(plugin, claim)
    assert files(node, claim) == written
    assert written["request-0"]["metadata"]["generation"] == 2


async def test_the_next_prepare_writes_the_file_after_a_kill(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ClaimFiles, record: ClaimRecord) -> None:
        raise StateError("disk full")

    claim, driver = node.api.add(allocated("claim", "lamp-0")), described(node)
    async with node.running(driver) as plugin:
        await prepare(plugin, claim)
        with monkeypatch.context() as patch:
            patch.setattr(ClaimFiles, "write_metadata", full)
            with pytest.raises(StateError):
                await driver.update_metadata(claim.metadata.uid, NEWS)
        assert files(node, claim)["request-0"]["metadata"]["generation"] == 1
        await prepare(plugin, claim)
    assert files(node, claim)["request-0"]["metadata"]["generation"] == 2


async def test_a_thread_may_update_metadata(node: Node) -> None:
    claim, driver = node.api.add(allocated("claim", "lamp-0")), described(node)
    async with node.running(driver) as plugin:
        await prepare(plugin, claim)
        await asyncio.to_thread(lambda: asyncio.run(driver.update_metadata(claim.metadata.uid, NEWS)))
    assert files(node, claim)["request-0"]["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({(NODE, "lamp-9"): DeviceMetadata()}, "device node-1/lamp-9 is not a device of the claim"),
        ({(NODE, "lamp-3"): DeviceMetadata()}, "request request-1 has no metadata file"),
        (
            {(NODE, "lamp-0"): DeviceMetadata({"color": object()})},  # type: ignore[dict-item]
            r"metadata\['color'\]: .* is not an attribute",
        ),
        ({(NODE, "lamp-0"): {"color": "red"}}, "device node-1/lamp-0: dict: must be DeviceMetadata"),
    ],
)
async def test_an_invalid_update_is_an_error_and_changes_nothing(
    devices: dict[tuple[str, str], DeviceMetadata], message: str, node: Node
) -> None:
    claim, driver = node.api.add(allocated("claim", "lamp-0", "lamp-3")), described(node)
    async with node.running(driver) as plugin:
        await prepare(plugin, claim)
        before, rows = files(node, claim), plugin.prepared()
        with pytest.raises(DraError, match=message):
            await driver.update_metadata(claim.metadata.uid, devices)
        assert (files(node, claim), plugin.prepared()) == (before, rows)


async def test_a_claim_must_be_prepared_and_the_driver_running(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_updates, "_LOCK_SECONDS", 0.05)
    claim, driver = node.api.add(allocated("claim", "lamp-0")), described(node)
    driver.gate = asyncio.Event()
    async with node.running(driver) as plugin:
        with pytest.raises(DraError, match="is not prepared here"):
            await driver.update_metadata(claim.metadata.uid, NEWS)
        preparing = asyncio.create_task(prepare(plugin, claim))
        while not driver.calls:
            await asyncio.sleep(0)
        with pytest.raises(DraError, match="a prepare or unprepare of the claim has taken more than"):
            await driver.update_metadata(claim.metadata.uid, NEWS)
        driver.gate.set()
        await preparing
    with pytest.raises(DraError, match="does not run"):
        await driver.update_metadata(claim.metadata.uid, NEWS)
