"""A node cannot attach a device of a pool driver: the pool driver taints it and fails the allocation."""

import asyncio
from pathlib import Path

import pytest

from dradriver.driver import AllocatedDevice, AttachError, BindingClaim
from dradriver.kube import CLAIMS, NODES, PODS
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.conditions.fabric import ATTACHED, FAILED, Hardware, Lab
from tests.unit.conditions.killed import Dying, dying
from tests.unit.conditions.two_halves import (
    NODE_FAILED,
    NOT_READY,
    MemoryOnNode,
    MemoryPools,
    conditions,
    on_node,
    true_conditions,
)

WRITES = 14


@pytest.fixture
async def folder(lab: Lab, tmp_path: Path) -> Path:
    await lab.client.delete(NODES, "node-2")
    (tmp_path / "registry").mkdir()
    return tmp_path


class Observed:
    """The conditions of every version of the claims, and the tainted devices at each failure condition."""

    def __init__(self, lab: Lab) -> None:
        self.versions: list[dict[str, Condition]] = []
        self.tainted_at_failure: list[set[str]] = []
        self._lab = lab
        lab.seen.claims.subscribe(self._add)

    def _add(self, _kind: object, _old: object, new: ResourceClaim | None) -> None:
        seen = conditions(new)
        self.versions.append(seen)
        if FAILED in seen or NOT_READY in seen:
            self.tainted_at_failure.append(self._lab.tainted())

    def ever(self, kind: str) -> list[Condition]:
        return [each[kind] for each in self.versions if kind in each]


async def test_both_halves_attach_and_the_pod_is_bound(lab: Lab, hardware: Hardware, folder: Path) -> None:
    node = MemoryOnNode()
    async with lab.scheduler(), lab.driver(MemoryPools(hardware)), on_node(lab, node, folder):
        await lab.pod()
        assert await lab.bound() == "memory-0"
    assert node.attached == [("memory-0", {"serial": "serial of memory-0"})]
    assert node.offered == [True]


async def test_the_device_is_tainted_before_it_fails_and_the_pod_gets_another(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    seen = Observed(lab)
    node = MemoryOnNode("memory-0")
    async with lab.scheduler(), lab.driver(MemoryPools(hardware)), on_node(lab, node, folder):
        await lab.pod()
        assert await lab.bound() == "memory-1"
        assert lab.tainted() == {"memory-0"}
    assert [name for name, _ in node.attached] == ["memory-0", "memory-1"]
    assert seen.tainted_at_failure
    assert all(tainted == {"memory-0"} for tainted in seen.tainted_at_failure)
    assert {(c.status, c.reason, c.message) for c in seen.ever(NODE_FAILED)} == {
        ("True", "NoWindow", "no window")
    }
    assert {(c.status, c.reason, c.message) for c in seen.ever(NOT_READY)} == {
        ("True", "NoWindow", "no window")
    }
    assert not seen.ever(FAILED)
    assert set(hardware.attached) == {"memory-1"}


async def test_without_a_choice_the_first_failure_condition_is_set(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    class First(MemoryPools):
        node_failure_condition = ""

    seen = Observed(lab)
    node = MemoryOnNode("memory-0")
    async with lab.scheduler(), lab.driver(First(hardware)), on_node(lab, node, folder):
        await lab.pod()
        await lab.bound()
    assert seen.ever(FAILED)
    assert not seen.ever(NOT_READY)


async def test_a_failure_that_needs_no_taint_is_set_by_the_node(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    seen = Observed(lab)
    node = MemoryOnNode("memory-0")
    node.error = AttachError("node not ready", condition=NOT_READY, device_is_bad=False)
    async with lab.scheduler(), lab.driver(MemoryPools(hardware)), on_node(lab, node, folder):
        await lab.pod()
        await lab.until(lambda *_: bool(seen.ever(NOT_READY)))
        node.bad.clear()
        await lab.bound()
        assert not lab.tainted()
    assert not seen.ever(NODE_FAILED)


async def test_the_failure_waits_for_the_pool_driver_and_the_node_does_not_attach_again(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    """The pool driver is away when the node reports, and the node's plugin is restarted."""
    node = MemoryOnNode("memory-0")
    hardware.open.clear()
    async with lab.scheduler():
        async with lab.driver(MemoryPools(hardware)):
            await lab.pod()
            hardware.open.set()
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims.get("default/pod-1")))
        async with on_node(lab, node, folder):
            await lab.until(lambda _, claims: NODE_FAILED in true_conditions(claims["default/pod-1"]))
        async with on_node(lab, node, folder):
            assert not {FAILED, NOT_READY} & true_conditions(lab.claim())
            assert not lab.tainted()
            async with lab.driver(MemoryPools(hardware)):
                assert await lab.bound() == "memory-1"
                assert lab.tainted() == {"memory-0"}
    assert [name for name, _ in node.attached] == ["memory-0", "memory-1"]


async def test_a_running_attach_of_the_pool_driver_ends_before_the_taint(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    """Its success removes the taint of an earlier failure."""

    class AtTheSameTime(MemoryOnNode):
        attach_after = ()

    node = AtTheSameTime("memory-0")
    hardware.open.clear()
    async with lab.scheduler(), lab.driver(MemoryPools(hardware)), on_node(lab, node, folder):
        await lab.pod()
        await lab.until(lambda _, claims: NODE_FAILED in true_conditions(claims.get("default/pod-1")))
        assert not lab.tainted()
        hardware.open.set()
        assert await lab.bound() == "memory-1"
        assert lab.tainted() == {"memory-0"}


async def test_a_slow_device_of_the_claim_does_not_delay_the_failure_of_another(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    forever = asyncio.Event()

    class SlowSecond(MemoryPools):
        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            if device.name == "memory-1":
                await forever.wait()
            await super().attach(claim, device)

    both = builders.claim(builders.device_request(count=2), name="pod-1")
    node = MemoryOnNode("memory-0")
    async with lab.scheduler(), lab.driver(SlowSecond(hardware)), on_node(lab, node, folder):
        await lab.client.create(CLAIMS, both, "default", into=dict)
        await lab.client.create(PODS, builders.pod("pod-1", name="pod-1"), "default", into=dict)
        await lab.until(lambda *_: lab.tainted() == {"memory-0"})
    assert not forever.is_set()


@pytest.mark.parametrize("number", range(1, WRITES))
async def test_the_next_pool_driver_continues_after_a_kill_at_any_write(
    lab: Lab, hardware: Hardware, folder: Path, number: int
) -> None:
    seen = Observed(lab)
    node = MemoryOnNode("memory-0")
    async with lab.scheduler(), on_node(lab, node, folder):
        async with dying(lab, MemoryPools(hardware), number) as died:
            await lab.pod()
            bound = asyncio.create_task(lab.bound())
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({bound, dead}, return_when="FIRST_COMPLETED")
            dead.cancel()
        async with lab.driver(MemoryPools(hardware)):
            assert await bound == "memory-1"
            assert lab.tainted() == {"memory-0"}
    assert all(tainted == {"memory-0"} for tainted in seen.tainted_at_failure)
    assert [name for name, _ in node.attached] == ["memory-0", "memory-1"]


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_the_next_process_of_the_node_continues_after_a_kill_at_any_write(
    lab: Lab, hardware: Hardware, folder: Path, number: int
) -> None:
    """The writes are the begin of an attach, the report, and the begin of the next device's attach."""

    class Killed(Dying):
        at = number
        died = asyncio.Event()

    node = MemoryOnNode("memory-0")
    async with lab.scheduler(), lab.driver(MemoryPools(hardware)):
        async with on_node(lab, node, folder, Killed):
            await lab.pod()
            await Killed.died.wait()
        async with on_node(lab, node, folder):
            assert await lab.bound() == "memory-1"
    assert [name for name, _ in node.attached] == ["memory-0", "memory-1"]
