"""A driver that is a binding driver and a controller: `deallocate` waits until the node is ready."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.classic.releasing import Releaser
from dradriver.kube import CLAIMS, CONFIG_MAPS, NODES, Client, PatchKind
from dradriver.node.usage.note import UsageEntry, UsageNote, encode_note, note_label, note_name
from dradriver.runner.controllers import BindingControllerProcess
from tests.unit.classic.shelf import CONTROLLER, Shelf, ShelfDriver, ShelfLab
from tests.unit.conditions.fabric import restarted

BOOT = "boot-1"

BOTH_MODES = pytest.mark.parametrize("immediate", [False, True], ids=["delayed", "immediate"])


class BothWays(dra.BindingDriver, ShelfDriver):
    """Publishes nothing, and allocates slots."""

    node_releases = True

    def discover(self) -> list[dra.Pool]:
        return []

    def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        raise AssertionError(f"{claim}: {device.name} is not published")

    def detach(self, attachment: dra.Attachment) -> None:
        raise AssertionError(f"{attachment} was never attached")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Releaser, "pause_seconds", 0.01)
    monkeypatch.setattr(Releaser, "report_seconds", 0.05)


@asynccontextmanager
async def running(kubeconfig: str, shelf: Shelf) -> AsyncIterator[BindingControllerProcess]:
    driver = BothWays(shelf)
    async with await Client.connect(kubeconfig) as client:
        process = BindingControllerProcess(driver, driver, client)
        task = asyncio.create_task(process.run(asyncio.Event()))
        try:
            yield process
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def write_note(lab: ShelfLab, *uids: str) -> None:
    """Write the usage note of node-1, as the driver of the node does."""
    status = {"status": {"nodeInfo": {"bootID": BOOT}}}
    await lab.client.patch(NODES, "node-1", "", status, PatchKind.MERGE, into=dict, subresource="status")
    entries = [UsageEntry(claim_uid=uid, pool="pool", device="slot") for uid in uids]
    name, (label, value) = note_name(CONTROLLER, "node-1"), note_label(CONTROLLER)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {label: value}},
        "data": encode_note(UsageNote("node-1", BOOT, entries)),
    }
    await lab.client.patch(
        CONFIG_MAPS, name, "default", body, PatchKind.APPLY, into=dict, field_manager="node", force=True
    )


async def allocate_and_use(lab: ShelfLab, *, immediate: bool = False) -> str:
    """Allocate a claim for node-1, which uses it, and release it; return the claim's UID."""
    created = await lab.create_claim(immediate=immediate)
    if not immediate:
        await lab.negotiate(await lab.create_pod("claim-1"), "node-1")
    await lab.allocated()
    await write_note(lab, created.metadata.uid)
    if immediate:
        await lab.client.delete(CLAIMS, "claim-1", "default")
    else:
        await lab.release()
    return created.metadata.uid


@BOTH_MODES
async def test_a_claim_that_its_node_uses_is_not_deallocated_and_reported(
    lab: ShelfLab, shelf: Shelf, immediate: bool
) -> None:
    async with running(lab.kubeconfig, shelf):
        uid = await allocate_and_use(lab, immediate=immediate)
        message = await lab.event("NotReleased")
        assert "node node-1: " in message
        assert "lists it as in use" in message
        assert shelf.held == {uid: ("node-1", 1)}
        assert shelf.calls("deallocate") == []
        await write_note(lab)
        await lab.until(lambda: not shelf.held)


@BOTH_MODES
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "out of service"])
async def test_a_dead_node_need_not_release_the_claim(
    lab: ShelfLab, shelf: Shelf, is_deleted: bool, immediate: bool
) -> None:
    async with running(lab.kubeconfig, shelf):
        await allocate_and_use(lab, immediate=immediate)
        await lab.event("NotReleased")
        await lose_node(lab, is_deleted=is_deleted)
        await lab.until(lambda: not shelf.held)


async def lose_node(lab: ShelfLab, *, is_deleted: bool) -> None:
    if is_deleted:
        await lab.client.delete(NODES, "node-1")
        return
    body = {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
    await lab.client.patch(NODES, "node-1", "", body, PatchKind.MERGE, into=dict)


@BOTH_MODES
async def test_a_claim_of_a_node_without_a_usage_note_is_not_deallocated(
    lab: ShelfLab, shelf: Shelf, immediate: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The note may have been deleted while a pod uses the claim."""
    async with running(lab.kubeconfig, shelf):
        uid = await allocate_and_use(lab, immediate=immediate)
        await lab.event("NotReleased")
        await lab.client.delete(CONFIG_MAPS, note_name(CONTROLLER, "node-1"), "default")
        while "does not exist" not in caplog.text:
            await asyncio.sleep(0.01)
        assert shelf.held == {uid: ("node-1", 1)}
        assert shelf.calls("deallocate") == []
        await write_note(lab)
        await lab.until(lambda: not shelf.held)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "out of service"])
async def test_an_orphan_on_a_dead_node_is_released(lab: ShelfLab, shelf: Shelf, is_deleted: bool) -> None:
    """Only the hardware knows the orphan, so the notes of all nodes are read."""
    shelf.held["uid-of-a-lost-claim"] = ("node-1", 1)
    await write_note(lab, "uid-of-a-lost-claim")
    await lose_node(lab, is_deleted=is_deleted)
    async with running(lab.kubeconfig, shelf):
        while shelf.held:
            await asyncio.sleep(0.01)


async def test_an_orphan_is_released_only_when_no_node_uses_it(
    lab: ShelfLab, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.held["uid-of-a-lost-claim"] = ("node-1", 1)
    await write_note(lab, "uid-of-a-lost-claim")
    async with running(lab.kubeconfig, shelf):
        while "lists it as in use" not in caplog.text:
            await asyncio.sleep(0.01)
        assert shelf.calls("deallocate") == []
        await write_note(lab)
        while shelf.held:
            await asyncio.sleep(0.01)


async def test_the_process_is_ready_in_a_cluster_without_classic_dra(tmp_path: Path, shelf: Shelf) -> None:
    async with restarted(tmp_path) as lab, running(lab.kubeconfig, shelf) as process:
        while process.readiness:
            await asyncio.sleep(0.01)


async def test_the_process_has_the_metrics_of_both_ways(lab: ShelfLab, shelf: Shelf) -> None:
    async with running(lab.kubeconfig, shelf) as process:
        names = {each.name for each in process.metrics.registry.collect()}
    assert {"dradriver_classic_allocations", "dradriver_build_info"} <= names


async def test_a_call_in_a_thread_ends_before_the_process_does(lab: ShelfLab, shelf: Shelf) -> None:
    """Otherwise the next leader would deallocate the claim before `allocate` has ended."""
    begun, gate, ended = threading.Event(), threading.Event(), list[str]()

    class Slow(BothWays):
        def allocate(  # type: ignore[override]
            self, claims: Sequence[dra.PendingClaim], node: str | None
        ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
            begun.set()
            gate.wait()
            ended.append("allocate")
            return {}

        def shutdown(self) -> None:
            ended.append("shutdown")

    await lab.create_claim(immediate=True)
    driver, stop = Slow(shelf), asyncio.Event()
    async with await Client.connect(lab.kubeconfig) as client:
        process = asyncio.create_task(BindingControllerProcess(driver, driver, client).run(stop))
        await asyncio.to_thread(begun.wait)
        stop.set()
        asyncio.get_running_loop().call_later(0.3, gate.set)
        await process
    assert ended == ["allocate", "shutdown"]
