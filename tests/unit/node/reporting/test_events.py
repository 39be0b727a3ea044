"""Events of claims and of the Node: limited in number, aggregated, and best effort."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from dradriver.driver import AllocatedDevice, Claim, PreparedDevice
from dradriver.errors import DraError
from dradriver.kube.errors import Forbidden
from dradriver.node import plugin
from dradriver.node.reporting.events import Reason
from dradriver.node.state.database import FILE_NAME
from tests.unit.node.plugin_world import Node, notify, prepare, unprepare
from tests.unit.node.world import DRIVER, NODE, LampDriver, allocated

PATIENCE = "_REGISTRATION_SECONDS"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_a_device_in_use_names_both_claims(node: Node) -> None:
    async with node.running() as running:
        first = node.api.add(allocated("first", "lamp-0"))
        await prepare(running, first)
        second = node.api.add(allocated("second", "lamp-0"))
        await prepare(running, second)
        event = await node.api.event("DeviceInUse")
    assert event["involvedObject"] == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "namespace": "default",
        "name": "second",
        "uid": second.metadata.uid,
    }
    assert (event["type"], event["source"]) == ("Warning", {"component": DRIVER, "host": NODE})
    assert "default/first" in event["message"]
    assert "default/second" in event["message"]


async def test_an_invalid_configuration_names_field_and_rule(node: Node) -> None:
    wrong = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","colour":"red"}'
    async with node.running() as running:
        await (
            running.parts.claims.state_complete.wait()
        )  # what is there before may have been prepared by another version
        await prepare(running, node.api.add(allocated("claim", "lamp-0", parameters=wrong)))
        event = await node.api.event("InvalidConfig")
    assert event["involvedObject"]["name"] == "claim"
    assert "colour: LampConfig has no such field" in event["message"]


async def test_repeated_failures_of_a_prepare_are_one_event_and_one_line(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running() as running:
        await prepare(running, node.api.add(allocated("first", "lamp-0")))
        second = node.api.add(allocated("second", "lamp-0"))
        for _ in range(20):
            await prepare(running, second)
        await node.api.event("DeviceInUse")
    assert len(node.api.events) == 1
    assert caplog.text.count("prepare failed") == 1


async def test_an_error_of_the_driver_causes_no_event_of_the_claim(node: Node) -> None:
    driver = LampDriver(node.hardware)
    driver.failure = OSError("broken")
    async with node.running(driver) as running:
        await prepare(running, node.api.add(allocated("claim", "lamp-0")))
        await notify(running, "to have one event at all")
        await node.api.event("RegistrationRefused")
    assert [event["reason"] for event in node.api.events] == ["RegistrationRefused"]


async def test_a_warning_of_the_driver_is_an_event_of_the_claim_that_is_prepared(node: Node) -> None:
    driver = LampDriver(node.hardware)
    async with node.running(driver) as running:
        claim = node.api.add(allocated("claim", "lamp-0"))
        prepared = await prepare(running, claim)
        assert prepared is not None
        known = Claim(claim.metadata.uid, "default", "claim")
        await asyncio.to_thread(driver.warn, known, "the lamp has no shade")
        event = await node.api.event("DriverWarning")
    assert (event["involvedObject"]["name"], event["message"]) == ("claim", "the lamp has no shade")
    driver.warn(known, "after the end, nobody listens")


async def test_a_failed_unprepare_is_an_event_of_the_claim(node: Node) -> None:
    """The kubelet writes none."""
    driver = LampDriver(node.hardware)
    async with node.running(driver) as running:
        claim = node.api.add(allocated("claim", "lamp-0"))
        await prepare(running, claim)
        driver.failure = DraError("the lamp is stuck")
        await unprepare(running, claim)
        event = await node.api.event("UnprepareFailed")
    assert event["involvedObject"]["name"] == "claim"
    assert "the lamp is stuck" in event["message"]


async def test_a_rejected_registration_is_one_event_with_the_kubelets_message(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running() as running:
        for _ in range(5):
            await notify(running, "the version is odd")
        event = await node.api.event("RegistrationRefused")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
    assert "the version is odd" in event["message"]
    assert caplog.text.count("the version is odd") == 1


async def test_a_missing_kubelet_is_an_event(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, PATIENCE, 0)
    async with node.running():
        event = await node.api.event("NotRegistered")
    assert str(node.root / "plugins_registry") in event["message"]
    assert event["involvedObject"]["kind"] == "Node"


async def test_a_state_file_that_was_set_aside_is_an_event(node: Node) -> None:
    data_dir = node.config().data_dir(DRIVER)
    data_dir.mkdir(parents=True)
    (data_dir / FILE_NAME).write_bytes(b"no database" * 500)
    async with node.running():
        event = await node.api.event("StateSetAside")
    assert f"{FILE_NAME}.corrupt-" in event["message"]


async def test_a_state_that_has_lost_a_claim_is_an_event(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    async with node.running() as running:
        await prepare(running, claim)
    with closing(sqlite3.connect(node.config().data_dir(DRIVER) / FILE_NAME)) as connection, connection:
        connection.execute("DELETE FROM claims")
    async with node.running():
        event = await node.api.event("StateLostClaims")
    assert claim.metadata.uid in event["message"]
    assert event["involvedObject"]["kind"] == "Node"


async def test_statuses_that_the_api_server_rejects_are_one_event(node: Node) -> None:
    driver = LampDriver(node.hardware)
    driver.answer = report_data
    refusal = 'changing status.devices requires resource="resourceclaims/driver"'
    node.api.patch_failures = [Forbidden(refusal, status=403) for _ in range(2)]
    async with node.running(driver) as running:
        claims = [node.api.add(allocated(f"claim-{n}", f"lamp-{n}")) for n in range(2)]
        await prepare(running, *claims)
        event = await node.api.event("DeviceStatusRefused")
        await written(node, 4)
    assert refusal in event["message"]
    assert len(node.api.events) == 1


def report_data(device: AllocatedDevice) -> PreparedDevice:
    return PreparedDevice(data={"lamp": device.name})


async def written(node: Node, times: int) -> None:
    while len(node.api.patches) < times:
        await asyncio.sleep(0.01)


def test_every_reason_is_documented() -> None:
    documented = (Path(__file__).parents[4] / "docs/observe.md").read_text()
    assert [reason for reason in get_args(Reason) if f"| `{reason}` |" not in documented] == []


async def test_an_api_server_that_rejects_events_is_logged_once(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    async def refuse(*_: object, **__: object) -> None:
        tries.append("")
        raise Forbidden("events is forbidden", status=403)

    monkeypatch.setattr(node.api, "create", refuse)
    async with node.running() as running:
        for number in range(3):
            await notify(running, f"odd version {number}")
        while len(tries) < 3:
            await asyncio.sleep(0.01)
    assert caplog.text.count("events is forbidden") == 1
