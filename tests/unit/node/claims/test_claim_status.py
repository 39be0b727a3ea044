"""Writes of `status.devices`, and failed writes."""

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
from dradriver.model.classic.names import DEALLOCATION_REQUESTED
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import builtins, decode
from dradriver.model.resource.claim import AllocatedDeviceStatus, ClaimStatus, NetworkData, ResourceClaim
from dradriver.node.claims import claim_status
from dradriver.node.claims.claim_status import StatusWriter, build_field_manager, build_statuses, merge_statuses
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice
from tests.unit.node.controlled import POOL, controlled
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
        writer.schedule(record(claim, **DATA, network=NetworkData(interface_name="eth0")))
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


async def test_a_condition_gets_the_fields_that_the_api_requires(api: FakeApi) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    async with writing(api) as (writer, _):
        writer.schedule(record(claim, conditions=[Condition(type="Ready", status="True")]))
        ((_, body),) = await patches(api, 1)
    (condition,) = body["status"]["devices"][0]["conditions"]
    assert condition["reason"] == "Reported"
    assert len(condition["lastTransitionTime"]) == len("2026-01-01T00:00:00Z")


async def test_a_driver_without_a_report_writes_nothing(api: FakeApi) -> None:
    claim, other = api.add(allocated("claim", "lamp-0")), api.add(allocated("other", "lamp-1"))
    async with writing(api) as (writer, _):
        writer.schedule(record(claim))
        writer.schedule(record(other, **DATA))
        assert [body["metadata"]["name"] for _, body in await patches(api, 1)] == ["other"]


async def test_a_write_is_retried_while_the_api_server_is_unavailable(api: FakeApi) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    api.patch_failures = [Unavailable("connection refused")]
    async with writing(api) as (writer, metrics):
        writer.schedule(record(claim, **DATA))
        await patches(api, 2)
        assert failures(metrics) == 1


async def test_an_error_names_the_gate_when_the_api_server_drops_the_entries(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Queue[str]()
    claim = api.add(allocated("claim", "lamp-0"))

    async def dropping(*_: object, **__: object) -> dict[str, Any]:
        return {"metadata": {}, "status": {"allocation": {}}}

    monkeypatch.setattr(api, "patch", dropping)
    writer = StatusWriter(api, DRIVER, NodeMetrics(DRIVER), NODE, refused.put_nowait)
    task = asyncio.create_task(writer.run())
    writer.schedule(record(claim, **DATA))
    assert "drops status.devices (DRAResourceClaimDeviceStatus)" in await refused.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_status_of_a_deleted_claim_is_dropped_without_a_log_line(api: FakeApi) -> None:
    api.patch_failures = [NotFound("gone")]
    other = api.add(allocated("other", "lamp-1"))
    async with writing(api) as (writer, metrics):
        writer.schedule(record(allocated("gone", "lamp-0"), **DATA))
        await patches(api, 1)
        writer.schedule(record(other, **DATA))
        assert [body["metadata"]["name"] for _, body in await patches(api, 2)] == ["gone", "other"]
        assert failures(metrics) == 0


async def test_the_status_of_an_unprepared_claim_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the API server rejects writes, claims that are gone cause no requests."""
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


async def test_a_claim_that_rejects_an_apply_is_merged_at_its_resource_version(
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
        writer.schedule(record(claim, **DATA))
        kinds = [kind for kind, _ in await patches(api, 3)]
        assert failures(metrics) == 0
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
    assert merge_statuses(theirs, [entry("a", "s1", data=9), entry("a", data=8), entry("c", data=7)]) == [
        entry("a", data=8, conditions=[condition("X")]),
        entry("a", "s1", data=9),
        entry("b", data=3),
        entry("c", data=7),
    ]


def test_a_claim_with_data_in_its_status_can_be_read_back() -> None:
    """A driver's report must not prevent a second prepare of its claim."""
    text = b'{"devices":[{"driver":"d","pool":"p","device":"x","data":{"watts":7}}]}'
    status = decode(ClaimStatus, text)
    assert builtins(status) == {"devices": [{"driver": "d", "pool": "p", "device": "x", "data": {"watts": 7}}]}


async def test_a_claim_with_data_is_answered_after_a_restart(world: World) -> None:
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
    (status,) = build_statuses(DRIVER, row.record, datetime.now(UTC))
    assert builtins(status)["data"] == {"watts": 7}


def condition(kind: str, status: str = "True", at: str = "2026-01-01T00:00:00Z", **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": at, **more}


def lamp(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"driver": DRIVER, "pool": NODE, "device": "lamp-0", "conditions": list(conditions)}


def test_conditions_of_one_device_are_merged_by_type() -> None:
    theirs = [lamp(condition("Attached", reason="Fabric"), condition("Ready", "False", reason="Cold"))]
    ours = [lamp(condition("Ready", at="2026-02-02T00:00:00Z", reason="Warm"), condition("Lit"))]
    assert merge_statuses(theirs, ours) == [
        lamp(
            condition("Attached", reason="Fabric"),
            condition("Ready", at="2026-02-02T00:00:00Z", reason="Warm"),
            condition("Lit"),
        )
    ]


def test_a_condition_whose_status_did_not_change_keeps_its_transition_time() -> None:
    theirs = [lamp(condition("Ready", reason="Cold"))]
    ours = [lamp(condition("Ready", at="2026-02-02T00:00:00Z", reason="Warm"))]
    assert merge_statuses(theirs, ours) == [lamp(condition("Ready", reason="Warm"))]


def test_more_than_eight_conditions_leave_those_of_others_and_the_first_of_ours() -> None:
    theirs = [lamp(*(condition(f"Their{n}") for n in range(7)))]
    ours = [lamp(condition("Their0", "False"), condition("Our1"), condition("Our2"))]
    (entry,) = merge_statuses(theirs, ours)
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
async def test_writing_the_same_status_again_changes_no_transition_time(api: FakeApi, kind: PatchKind) -> None:
    """This happens after each start of the driver."""
    before = Condition(type="Ready", status="True", reason="Reported", last_transition_time=BEFORE)
    claim = api.add(with_conditions(allocated("claim", "lamp-0"), THEIRS, before))
    if kind is PatchKind.MERGE:
        api.patch_failures = [Invalid("field is immutable")]
    async with writing(api) as (writer, _):
        writer.schedule(record(claim, conditions=[Condition(type="Ready", status="True")]))
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
        writer.schedule(record(claim, conditions=[Condition(type="Ready", status="True")]))
        ((_, body),) = await patches(api, 1)
    (written,) = body["status"]["devices"][0]["conditions"]
    assert written["lastTransitionTime"] > "2026-01-01T00:00:00Z"


async def test_a_driver_with_more_than_eight_conditions_writes_eight(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    claim = api.add(allocated("claim", "lamp-0"))
    async with writing(api) as (writer, _):
        writer.schedule(record(claim, conditions=[Condition(type=f"C{n}", status="True") for n in range(9)]))
        ((_, body),) = await patches(api, 1)
    assert [each["type"] for each in body["status"]["devices"][0]["conditions"]] == [f"C{n}" for n in range(8)]
    assert f"device {NODE}/lamp-0: condition C8 is not written" in caplog.text


def test_plugins_of_two_nodes_are_two_field_managers_however_long_their_names_are() -> None:
    """Otherwise one would remove the other's entry of a device that spans both nodes."""
    assert build_field_manager(DRIVER, NODE) == f"dradriver/{DRIVER}@{NODE}"
    long = [build_field_manager(DRIVER, f"{'n' * 200}-{number}") for number in range(2)]
    assert len({*long}) == 2
    assert all(len(manager) == 128 for manager in long)


@pytest.mark.parametrize("kind", [PatchKind.APPLY, PatchKind.MERGE])
async def test_the_request_to_deallocate_survives_the_writes_of_a_driver(api: FakeApi, kind: PatchKind) -> None:
    """The scheduler's condition is on the entry of a device that a controller has allocated (KEP-3063)."""
    asked = Condition(
        type=DEALLOCATION_REQUESTED, status="True", reason="Unavailable", last_transition_time=BEFORE
    )
    claim = controlled("claim", "lamp-0", handle=b"x")
    entry = AllocatedDeviceStatus(driver=DRIVER, pool=POOL, device="lamp-0", conditions=[asked])
    claim = api.add(
        msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=[entry]))
    )
    wanted = to_allocated_claim(claim, DRIVER, NODE).record
    answers = [RecordedAnswer(conditions=[Condition(type="Ready", status="True")], data=DATA["data"])]
    if kind is PatchKind.MERGE:
        api.patch_failures = [Invalid("field is immutable")]
    async with writing(api) as (writer, _):
        writer.schedule(msgspec.structs.replace(wanted, answers=answers))
        *_, (last, body) = await patches(api, 1 + (kind is PatchKind.MERGE))
    (written,) = body["status"]["devices"]
    assert (last, written["pool"], written["device"], written["data"]) == (kind, POOL, "lamp-0", {"watts": 7})
    conditions = {each["type"]: each["status"] for each in written["conditions"]}
    # An apply owns only what it contains. A merge patch replaces the list, so the list has the request too.
    own = {"Ready": "True"}
    assert conditions == (own if kind is PatchKind.APPLY else own | {DEALLOCATION_REQUESTED: "True"})
