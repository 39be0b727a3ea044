"""A device is detached only after the node has released it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.conditions.releases.waits import ReleaseWaits
from dradriver.driver import AllocatedDevice, Attachment, BindingClaim, NodeReport
from dradriver.kube import CLAIMS, CONFIG_MAPS, EVENTS, NODES, PODS, PatchKind, object_tasks
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.claims.lookup import claim_ref
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.errors import AllocationEndedError
from dradriver.node.state.database import FILE_NAME
from dradriver.node.state.records import ClaimRecord
from dradriver.node.usage.writer import NoteWriter
from dradriver.testing import builders
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, POOL, Lab
from tests.unit.conditions.node_driver import NODE
from tests.unit.conditions.releases.releasing import (
    NOTE,
    Memory,
    OnNode,
    Pools,
    boot,
    hurry,
    is_ready,
    let_go,
    one_node,
    plugin_of,
    until_noted,
)
from tests.unit.conditions.two_halves import conditions
from tests.unit.control.events import wait_for_event
from tests.unit.node.plugin_world import prepare


class Recording(Pools):
    """Its fabric records the attachments.

    Attributes:
        asked: the number of calls of `attachments()`.
    """

    check_attachments_seconds = 0.02

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.asked = 0
        self._changed = asyncio.Condition()

    async def attachments(self) -> list[Attachment]:
        async with self._changed:
            self.asked += 1
            self._changed.notify_all()
        return [Attachment(uid, POOL, name, node=node) for name, (uid, node) in self.hardware.attached.items()]

    async def until(self, done: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(done)

    async def is_asked(self) -> None:
        """Wait until further calls; the check that followed the first of two has ended."""
        wanted = self.asked + 2
        await self.until(lambda: self.asked >= wanted)


@pytest.fixture
async def memory() -> Memory:
    return Memory()


@pytest.fixture
async def folder(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hurry(monkeypatch)
    await one_node(lab, tmp_path)
    return tmp_path


async def test_a_prepared_device_is_detached_after_unprepare(lab: Lab, memory: Memory, folder: Path) -> None:
    async with lab.scheduler(), lab.driver(Pools(memory)), plugin_of(lab, OnNode(memory), folder) as plugin:
        await is_ready(lab)
        await lab.pod()
        assert await lab.bound() == "memory-0"
        assert not (await prepare(plugin, lab.claim()))[lab.claim().metadata.uid].error
        (entry,) = (await until_noted(lab, lambda found: bool(found.entries))).entries
        assert (entry.claim_uid, entry.device) == (lab.claim().metadata.uid, "memory-0")
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        await lab.pod("pod-2")
        await lab.waits("pod-2")
        assert memory.log == [("attach", "memory-0")]
        await unprepare(plugin.parts.claims, claim_ref(lab.claim()))
        assert await lab.bound("pod-2") == "memory-0"
    assert memory.log == [("attach", "memory-0"), ("detach", "memory-0"), ("attach", "memory-0")]
    assert not memory.pulled


@pytest.mark.parametrize("restart", [False, True])
async def test_an_attach_without_a_prepare_is_taken_back(
    lab: Lab, memory: Memory, folder: Path, *, restart: bool
) -> None:
    node = OnNode(memory)
    async with lab.scheduler(), lab.driver(Pools(memory)):
        async with plugin_of(lab, node, folder):
            await is_ready(lab)
            await lab.pod()
            await lab.bound()
            assert memory.regions
            if not restart:
                await lab.delete_pod()
                await let_go(lab)
        if restart:
            await lab.delete_pod()
            await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
            assert memory.regions
            async with plugin_of(lab, node, folder):
                await let_go(lab)
    assert node.unprepared == [lab.claim().metadata.uid]
    assert (memory.pulled, memory.regions, memory.attached) == ([], {}, {})


async def test_devices_of_one_claim_are_attached_together_and_unprepared_after_that(
    lab: Lab, memory: Memory, folder: Path
) -> None:
    """The pod is deleted while the node attaches both."""
    both, begun = asyncio.Event(), set[str]()

    class Slow(OnNode):
        attach_after = ()

        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            begun.add(device.name)
            if len(begun) == 2:
                both.set()
            memory.regions[device.name] = claim.uid
            await asyncio.Event().wait()

    node = Slow(memory)
    claim = builders.claim(builders.device_request(count=2), name="pod-1")
    async with lab.scheduler(), lab.driver(Pools(memory)), plugin_of(lab, node, folder):
        await is_ready(lab)
        await lab.client.create(CLAIMS, claim, "default", into=dict)
        await lab.client.create(PODS, builders.pod("pod-1", name="pod-1"), "default", into=dict)
        await both.wait()
        await lab.delete_pod()
        await let_go(lab)
    assert node.unprepared == [lab.claim().metadata.uid]
    assert (memory.pulled, memory.regions, memory.attached) == ([], {}, {})


@pytest.mark.parametrize("gone", ["tainted", "deleted"])
async def test_a_node_that_never_comes_back_is_not_waited_for(
    lab: Lab, memory: Memory, folder: Path, gone: str
) -> None:
    async with lab.scheduler(), lab.driver(Pools(memory)):
        async with plugin_of(lab, OnNode(memory), folder):
            await is_ready(lab)
            await lab.pod()
            await lab.bound()
        memory.regions.clear()  # the machine is off
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        assert memory.attached
        if gone == "tainted":
            taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
            body = {"spec": {"taints": [taint]}}
            await lab.client.patch(NODES, NODE, "", body, PatchKind.MERGE, into=dict)
        else:
            await lab.client.delete(NODES, NODE)
        await let_go(lab)
    assert not memory.attached


async def test_a_wait_is_reported_with_the_node_and_the_reason(
    lab: Lab, memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has booted again, and its plugin does not run: its note is too old."""
    monkeypatch.setattr(ReleaseWaits, "report_seconds", 0.0)
    async with lab.scheduler(), lab.driver(Pools(memory)) as process:
        async with plugin_of(lab, OnNode(memory), folder) as plugin:
            await is_ready(lab)
            await lab.pod()
            await lab.bound()
            assert not (await prepare(plugin, lab.claim()))[lab.claim().metadata.uid].error
        await boot(lab, "boot-2")
        await lab.delete_pod()
        await lab.until(lambda *_: lab.tainted() == {"memory-0"})
        assert process._reports.stuck_counts()["release"] == 1
        await wait_for_event(lab.client, "was written before the last boot")
        events = await lab.client.list(EVENTS, "default", into=dict)
        (message,) = {e["message"] for e in events.items if e["reason"] == "NotReleased"}
        assert f"node {NODE}: ConfigMap default/{NOTE} was written before the last boot" in message
        async with plugin_of(lab, OnNode(memory), folder, boot_id="boot-2") as plugin:
            await unprepare(plugin.parts.claims, claim_ref(lab.claim()))
            await let_go(lab)
    assert (memory.pulled, memory.attached) == ([], {})


async def test_a_detach_does_not_wait_for_the_taint_of_its_device(
    lab: Lab, memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server rejects writes of slices, so the device is never shown as tainted."""
    monkeypatch.setattr(ReleaseWaits, "report_seconds", 0.0)
    async with (
        lab.scheduler(),
        lab.driver(Pools(memory)) as process,
        plugin_of(lab, OnNode(memory), folder) as plugin,
    ):
        await is_ready(lab)
        await lab.pod()
        await lab.bound()
        assert not (await prepare(plugin, lab.claim()))[lab.claim().metadata.uid].error
        monkeypatch.setattr(process._quarantine, "_publish_again", lambda: None)
        reported = asyncio.Event()
        monkeypatch.setattr(process._reports, "report_stuck", lambda *_: reported.set())
        await lab.delete_pod()
        await reported.wait()
        await unprepare(plugin.parts.claims, claim_ref(lab.claim()))
        await let_go(lab)
    assert not lab.tainted()
    assert (memory.pulled, memory.attached) == ([], {})


async def test_a_node_without_a_note_fails_the_claim_and_the_device_is_not_bad(
    lab: Lab, memory: Memory, folder: Path
) -> None:
    reasons: set[str] = set()
    lab.seen.claims.subscribe(
        lambda _kind, _old, new: reasons.update(
            each.reason for kind, each in conditions(new).items() if kind == FAILED
        )
    )
    node = OnNode(memory)
    node.state = NodeReport(problem="no window")
    async with lab.scheduler(), lab.driver(Pools(memory)) as process:
        await lab.pod()
        await lab.until(lambda *_: "NodeNotReady" in reasons)
        async with plugin_of(lab, node, folder) as plugin:
            await until_noted(lab, lambda found: found.report.problem == "no window")
            assert (await process._binding.node_reports())[NODE].problem == "no window"
            assert not memory.attached
            node.state = NodeReport()
            plugin.parts.discovery.rediscover()
            await lab.bound()
            assert not lab.tainted()
    assert reasons == {"NodeNotReady"}


async def test_an_allocation_for_several_nodes_fails(lab: Lab, memory: Memory, folder: Path) -> None:
    anywhere = Device("memory-0", binding_conditions=[ATTACHED], binding_failure_conditions=[FAILED])
    driver = Pools(memory)
    driver.pools = [replace(driver.pools[0], devices=(anywhere,))]
    messages: set[str] = set()
    lab.seen.claims.subscribe(
        lambda _kind, _old, new: messages.update(
            each.message for each in conditions(new).values() if each.reason == "NotOneNode"
        )
    )
    async with lab.scheduler(), lab.driver(driver), plugin_of(lab, OnNode(memory), folder):
        await lab.pod()
        await lab.until(lambda *_: bool(messages))
    assert not memory.attached
    assert f"claim default/pod-1: device {DRIVER}/fabric/memory-0" in messages.pop()


async def test_a_deleted_note_is_written_again_and_nothing_is_detached_meanwhile(
    lab: Lab, memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoteWriter, "check_seconds", 0.05)
    async with lab.scheduler(), lab.driver(Pools(memory)), plugin_of(lab, OnNode(memory), folder) as plugin:
        await is_ready(lab)
        await lab.pod()
        await lab.bound()
        assert not (await prepare(plugin, lab.claim()))[lab.claim().metadata.uid].error
        await lab.client.delete(CONFIG_MAPS, NOTE, "default")
        assert (await until_noted(lab, lambda found: bool(found.entries))).report.values
    assert memory.regions
    assert ("detach", "memory-0") not in memory.log


async def test_a_node_whose_cache_is_behind_does_not_ask_again_and_again(
    lab: Lab, memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim in its cache is allocated, and the API server has another allocation."""
    asked: list[str] = []
    begun = asyncio.Event()

    async def ended(record: ClaimRecord, _seen: ResourceClaim) -> None:
        asked.append(record.uid)
        begun.set()
        raise AllocationEndedError(f"claim {record.ref}")

    node = OnNode(memory)
    async with lab.scheduler(), lab.driver(Pools(memory)), plugin_of(lab, node, folder) as plugin:
        await is_ready(lab)
        object.__setattr__(plugin.parts.claims, "note_use", ended)
        monkeypatch.setattr(object_tasks, "RETRY_SECONDS", (3600.0, 3600.0))
        await lab.pod()
        await begun.wait()
        for _ in range(200):
            await lab.client.get(NODES, NODE, into=dict)
    assert len(asked) == 1, asked
    assert not memory.regions


async def test_a_use_that_the_prepared_state_has_lost_is_taken_back(
    lab: Lab, memory: Memory, folder: Path
) -> None:
    node = OnNode(memory)
    async with lab.scheduler(), lab.driver(Pools(memory)):
        async with plugin_of(lab, node, folder):
            await is_ready(lab)
            await lab.pod()
            await lab.bound()
        for path in (folder / "plugins" / DRIVER).glob(f"{FILE_NAME}*"):
            path.unlink()
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        async with plugin_of(lab, node, folder):
            await let_go(lab)
    assert (memory.pulled, memory.regions, memory.attached) == ([], {}, {})


async def test_an_orphan_that_its_node_uses_stays(lab: Lab, memory: Memory, folder: Path) -> None:
    """The record of the attachment is lost, and then the allocation ends."""
    node = OnNode(memory)
    async with lab.scheduler(), plugin_of(lab, node, folder) as plugin:
        async with lab.driver(Recording(memory)):
            await is_ready(lab)
            await lab.pod()
            await lab.bound()
            assert not (await prepare(plugin, lab.claim()))[lab.claim().metadata.uid].error
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        body = {"metadata": {"annotations": None, "finalizers": None}}
        await lab.client.patch(CLAIMS, "pod-1", "default", body, PatchKind.MERGE, into=dict)
        claim = claim_ref(lab.claim())
        driver = Recording(memory)
        async with lab.driver(driver):
            await driver.is_asked()
            assert memory.attached
            await unprepare(plugin.parts.claims, claim)
            await driver.until(lambda: not memory.attached)
    assert not memory.pulled
