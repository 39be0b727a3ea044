"""What is written to `status.devices`, and what happens when it can't be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dradriver.driver import PreparedDevice
from dradriver.kube.client import PatchKind
from dradriver.kube.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import builtins, decode
from dradriver.model.resource.claim import AllocatedDeviceStatus, ClaimStatus, NetworkData, ResourceClaim
from dradriver.node.claims import claim_status
from dradriver.node.claims.claim_status import StatusWriter, device_statuses, field_manager, merged
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice
from tests.unit.node.plugin_world import Node, prepare
from tests.unit.node.world import DRIVER, NODE, FakeApi, LampDriver, World, allocated, ref


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def record(claim: ResourceClaim, **answer: Any) -> ClaimRecord:
    return ClaimRecord(
        uid=claim.metadata.uid,
        namespace="default",
        name=claim.metadata.name,
        devices=[RecordedDevice(request="r", pool=NODE, device="lamp-0", share_id="share-1")],
        answers=[RecordedAnswer(**answer)],
    )


DATA = {"data": msgspec.Raw(b'{"watts":7}')}


@asynccontextmanager
async def writing(api: FakeApi) -> AsyncIterator[tuple[StatusWriter, NodeMetrics]]:
    metrics = NodeMetrics(DRIVER)
    writer = StatusWriter(api, DRIVER, metrics, NODE)
    task = asyncio.create_task(writer.run())
    yield writer, metrics
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def patches(api: FakeApi, count: int) -> list[tuple[PatchKind, Any]]:
    while len(api.patches) < count:
        await asyncio.sleep(0.01)
    return api.patches


def failures(metrics: NodeMetrics) -> float | None:
    return metrics.registry.get_sample_value(
        "dradriver_node_background_errors_total", {"driver": DRIVER, "source": "status"}
    )


async def test_only_our_entries_are_applied_and_nothing_of_spec_or_allocation(api: FakeApi) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    async with writing(api) as (writer, _):
        writer.want(record(claim, **DATA, network=NetworkData(interface_name="eth0")))
        ((kind, body),) = await patches(api, 1)
    assert kind is PatchKind.APPLY
    assert body == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "default", "uid": claim.metadata.uid},
        "status": {
            "devices": [
                {
                    "driver": DRIVER,
                    "pool": NODE,
                    "device": "lamp-0",
                    "shareID": "share-1",
                    "data": {"watts": 7},
                    "networkData": {"interfaceName": "eth0"},
                }
            ]
        },
    }


async def test_a_condition_gets_what_the_api_requires(api: FakeApi) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    async with writing(api) as (writer, _):
        writer.want(record(claim, conditions=[Condition(type="Ready", status="True")]))
        ((_, body),) = await patches(api, 1)
    (condition,) = body["status"]["devices"][0]["conditions"]
    assert condition["reason"] == "Reported"
    assert len(condition["lastTransitionTime"]) == len("2026-01-01T00:00:00Z")


async def test_a_driver_with_nothing_to_say_writes_nothing(api: FakeApi) -> None:
    claim, other = api.add(allocated("claim", "lamp-0")), api.add(allocated("other", "lamp-1"))
    async with writing(api) as (writer, _):
        writer.want(record(claim))
        writer.want(record(other, **DATA))
        assert [body["metadata"]["name"] for _, body in await patches(api, 1)] == ["other"]


async def test_an_api_server_that_is_away_is_asked_again(api: FakeApi) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    api.patch_failures = [Unavailable("connection refused")]
    async with writing(api) as (writer, metrics):
        writer.want(record(claim, **DATA))
        await patches(api, 2)
        assert failures(metrics) == 1


async def test_a_server_that_drops_the_entries_is_named_its_gate(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Queue[str]()
    claim = api.add(allocated("claim", "lamp-0"))

    async def dropping(*_: object, **__: object) -> dict[str, Any]:
        return {"metadata": {}, "status": {"allocation": {}}}

    monkeypatch.setattr(api, "patch", dropping)
    writer = StatusWriter(api, DRIVER, NodeMetrics(DRIVER), NODE, refused.put_nowait)
    task = asyncio.create_task(writer.run())
    writer.want(record(claim, **DATA))
    assert "drops status.devices (DRAResourceClaimDeviceStatus)" in await refused.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_claim_that_is_gone_is_given_up_in_silence(api: FakeApi) -> None:
    api.patch_failures = [NotFound("gone")]
    other = api.add(allocated("other", "lamp-1"))
    async with writing(api) as (writer, metrics):
        writer.want(record(allocated("gone", "lamp-0"), **DATA))
        await patches(api, 1)
        writer.want(record(other, **DATA))
        assert [body["metadata"]["name"] for _, body in await patches(api, 2)] == ["gone", "other"]
        assert failures(metrics) is None


async def test_a_claim_that_was_unprepared_is_asked_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that refuses for hours is not asked for each claim that was ever here."""
    monkeypatch.setattr(claim_status, "_RETRY_SECONDS", (0.01, 0.01))
    node = Node(tmp_path)
    driver = LampDriver(node.hardware)
    driver.answer = lambda _: PreparedDevice(data={"watts": 7})
    first, second = (node.api.add(allocated(f"claim-{n}", f"lamp-{n}")) for n in range(2))
    node.api.patch_failures = [Forbidden("no", status=403)] * 1000
    async with node.running(driver) as plugin:
        await prepare(plugin, first)
        await patches(node.api, 2)
        await unprepare(plugin.parts.claims, ref(first))
        seen = len(node.api.patches)
        await prepare(plugin, second)
        names = [body["metadata"]["name"] for _, body in (await patches(node.api, seen + 4))[seen:]]
    assert set(names[1:]) == {"claim-1"}  # one may have been under way


async def test_a_claim_whose_stored_bytes_refuse_an_apply_is_merged_at_its_resource_version(
    api: FakeApi,
) -> None:
    theirs = AllocatedDeviceStatus(
        driver="other.example.com", pool="p", device="d", data=msgspec.Raw(b'{"x":1}')
    )
    claim = allocated("claim", "lamp-0")
    status = msgspec.structs.replace(claim.status, devices=[theirs])
    api.add(msgspec.structs.replace(claim, status=status))
    api.patch_failures = [Invalid("field is immutable"), Conflict("the object has been modified")]
    async with writing(api) as (writer, metrics):
        writer.want(record(claim, **DATA))
        kinds = [kind for kind, _ in await patches(api, 3)]
        assert failures(metrics) is None
    assert kinds == [PatchKind.APPLY, PatchKind.MERGE, PatchKind.MERGE]
    body = api.patches[-1][1]
    assert body["metadata"] == {"resourceVersion": "1"}
    assert [entry["driver"] for entry in body["status"]["devices"]] == ["other.example.com", DRIVER]
    assert set(body["status"]) == {"devices"}


def test_entries_are_merged_by_driver_pool_device_and_share() -> None:
    def entry(device: str, share: str = "", **more: Any) -> dict[str, Any]:
        key = {"driver": DRIVER, "pool": NODE, "device": device}
        return key | ({"shareID": share} if share else {}) | more

    theirs = [entry("a", data=1, conditions=[condition("X")]), entry("a", "s1", data=2), entry("b", data=3)]
    assert merged(theirs, [entry("a", "s1", data=9), entry("a", data=8), entry("c", data=7)]) == [
        entry("a", data=8, conditions=[condition("X")]),
        entry("a", "s1", data=9),
        entry("b", data=3),
        entry("c", data=7),
    ]


def test_a_claim_with_data_in_its_status_can_be_read_back() -> None:
    """What a driver says must not keep its own claim from being prepared again."""
    text = b'{"devices":[{"driver":"d","pool":"p","device":"x","data":{"watts":7}}]}'
    status = decode(ClaimStatus, text)
    assert builtins(status) == {"devices": [{"driver": "d", "pool": "p", "device": "x", "data": {"watts": 7}}]}


async def test_a_claim_whose_driver_gave_data_is_answered_after_a_restart(world: World) -> None:
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: PreparedDevice(
        data={"watts": 7}, conditions=(Condition(type="R", status="True"),)
    )
    claim = allocated("claim", "lamp-0")
    async with world.running(driver=driver) as process:
        first = await process.prepare(claim)
    async with world.running() as process:
        assert await process.prepare(claim) == first
        (row,) = await process.rows()
    (status,) = device_statuses(DRIVER, row.record, datetime.now(UTC))
    assert builtins(status)["data"] == {"watts": 7}


def condition(kind: str, status: str = "True", at: str = "2026-01-01T00:00:00Z", **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": at, **more}


def lamp(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"driver": DRIVER, "pool": NODE, "device": "lamp-0", "conditions": list(conditions)}


def test_conditions_of_one_device_are_merged_by_type() -> None:
    theirs = [lamp(condition("Attached", reason="Fabric"), condition("Ready", "False", reason="Cold"))]
    ours = [lamp(condition("Ready", at="2026-02-02T00:00:00Z", reason="Warm"), condition("Lit"))]
    assert merged(theirs, ours) == [
        lamp(
            condition("Attached", reason="Fabric"),
            condition("Ready", at="2026-02-02T00:00:00Z", reason="Warm"),
            condition("Lit"),
        )
    ]


def test_a_condition_whose_status_did_not_change_keeps_its_transition_time() -> None:
    theirs = [lamp(condition("Ready", reason="Cold"))]
    ours = [lamp(condition("Ready", at="2026-02-02T00:00:00Z", reason="Warm"))]
    assert merged(theirs, ours) == [lamp(condition("Ready", reason="Warm"))]


def test_more_than_eight_conditions_leave_those_of_others_and_the_first_of_ours() -> None:
    theirs = [lamp(*(condition(f"Their{n}") for n in range(7)))]
    ours = [lamp(condition("Their0", "False"), condition("Our1"), condition("Our2"))]
    (entry,) = merged(theirs, ours)
    assert [each["type"] for each in entry["conditions"]] == [*(f"Their{n}" for n in range(7)), "Our1"]
    assert entry["conditions"][0]["status"] == "False"


def with_conditions(claim: ResourceClaim, *conditions: Condition) -> ResourceClaim:
    entry = AllocatedDeviceStatus(
        driver=DRIVER, pool=NODE, device="lamp-0", share_id="share-1", conditions=list(conditions)
    )
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=[entry]))


BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
THEIRS = Condition(type="Attached", status="True", reason="Fabric", last_transition_time=BEFORE)


@pytest.mark.parametrize("kind", [PatchKind.APPLY, PatchKind.MERGE])
async def test_writing_the_same_again_changes_no_transition_time(api: FakeApi, kind: PatchKind) -> None:
    """As after each start of the driver."""
    before = Condition(type="Ready", status="True", reason="Reported", last_transition_time=BEFORE)
    claim = api.add(with_conditions(allocated("claim", "lamp-0"), THEIRS, before))
    if kind is PatchKind.MERGE:
        api.patch_failures = [Invalid("field is immutable")]
    async with writing(api) as (writer, _):
        writer.want(record(claim, conditions=[Condition(type="Ready", status="True")]))
        *_, (last, body) = await patches(api, 1 + (kind is PatchKind.MERGE))
    assert last is kind
    conditions = {each["type"]: each for each in body["status"]["devices"][0]["conditions"]}
    assert conditions["Ready"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    # Server-side apply leaves the conditions of others alone; a merged list has to hold them.
    assert set(conditions) == {"Ready"} if kind is PatchKind.APPLY else {"Ready", "Attached"}


async def test_a_changed_status_gets_a_new_transition_time(api: FakeApi) -> None:
    before = Condition(type="Ready", status="False", reason="Reported", last_transition_time=BEFORE)
    claim = api.add(with_conditions(allocated("claim", "lamp-0"), before))
    async with writing(api) as (writer, _):
        writer.want(record(claim, conditions=[Condition(type="Ready", status="True")]))
        ((_, body),) = await patches(api, 1)
    (written,) = body["status"]["devices"][0]["conditions"]
    assert written["lastTransitionTime"] > "2026-01-01T00:00:00Z"


async def test_a_driver_with_more_than_eight_conditions_writes_eight(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    async with writing(api) as (writer, _):
        writer.want(record(claim, conditions=[Condition(type=f"C{n}", status="True") for n in range(9)]))
        ((_, body),) = await patches(api, 1)
    assert [each["type"] for each in body["status"]["devices"][0]["conditions"]] == [f"C{n}" for n in range(8)]
    assert f"condition C8 of device {NODE}/lamp-0 is not written" in caplog.text


def test_plugins_of_two_nodes_are_two_field_managers_however_long_their_names_are() -> None:
    """Or the one would remove what the other says of a device that spans both nodes."""
    assert field_manager(DRIVER, NODE) == f"dradriver/{DRIVER}@{NODE}"
    long = [field_manager(DRIVER, f"{'n' * 200}-{number}") for number in range(2)]
    assert len({*long}) == 2
    assert all(len(manager) == 128 for manager in long)
