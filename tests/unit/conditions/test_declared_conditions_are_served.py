"""An API server drops binding conditions: devices are attached on allocation, and their prepare waits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.conditions.attachment_diff import read_record
from dradriver.driver import AttachError
from dradriver.kube import NODES, SLICES
from dradriver.model.resource.device import Device
from dradriver.node import Plugin
from dradriver.node.claims.lookup import claim_ref
from dradriver.node.claims.unprepare import unprepare
from tests.unit.conditions.fabric import (
    ATTACHED,
    DRIVER,
    FAILED,
    READY,
    Hardware,
    Lab,
    gpu,
    laboratory,
    restarted,
)
from tests.unit.conditions.killed import Dying, dying
from tests.unit.conditions.node_driver import NODE
from tests.unit.conditions.two_halves import (
    NODE_FAILED,
    NOT_READY,
    MemoryOnNode,
    conditions,
    true_conditions,
)
from tests.unit.conditions.without_conditions import (
    ALLOWED,
    GATE,
    REFUSED,
    Pools,
    answer_of,
    end_pod,
    final_answer,
    kubelet,
)

SUCCESS = range(3, 9)
"""The writes after the slices: the record, the declared conditions (by two tasks), the data, the result, and
the decision; then the end of the record."""
FAILURE = range(8, 14)
"""The writes after `attached`: the taint, the failure condition, the decision; then the end of the record."""
DATA = {"serial": "serial of memory-0"}


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with laboratory(tmp_path, **{GATE: False}) as made:
        await made.client.delete(NODES, "node-2")
        (tmp_path / "registry").mkdir()
        yield made


async def test_the_bound_pod_waits_in_prepare_until_both_halves_have_attached(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    hardware.open.clear()
    node = MemoryOnNode()
    async with lab.scheduler(), lab.driver(Pools(hardware)), kubelet(lab, node, tmp_path) as plugin:
        await lab.pod()
        assert await lab.bound() == "memory-0"
        answer = await answer_of(plugin, lab)
        assert "still in progress" in answer.error
        assert not answer.devices
        assert not plugin.prepared()
        await lab.until(lambda _, claims: ATTACHED in conditions(claims["default/pod-1"]))
        assert f"waiting for {ATTACHED} (Attaching)" in (await answer_of(plugin, lab)).error
        hardware.open.set()
        assert not await final_answer(plugin, lab)
        assert true_conditions(lab.claim()) == {ATTACHED, READY, ALLOWED}
        assert not lab.claim().results[0].binding_conditions
        assert node.attached == [("memory-0", DATA)]
        assert node.prepared == [DATA]
        await end_pod(lab)
    assert not hardware.attached
    assert hardware.log == [("attach", "memory-0"), ("detach", "memory-0")]


async def test_a_waiting_prepare_ends_when_the_device_is_attached(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    hardware.open.clear()
    node = MemoryOnNode()
    async with (
        lab.scheduler(),
        lab.driver(Pools(hardware)),
        kubelet(lab, node, tmp_path, prepare_deadline=40) as plugin,
    ):
        await lab.pod()
        await lab.bound()
        answer = asyncio.create_task(answer_of(plugin, lab))
        await lab.until(lambda _, claims: ATTACHED in conditions(claims["default/pod-1"]))
        hardware.open.set()
        assert not (await answer).error


async def test_a_failure_is_returned_by_prepare_and_ends_with_the_pod(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    hardware.bad.add("memory-0")
    node = MemoryOnNode()
    async with lab.scheduler(), lab.driver(Pools(hardware)), kubelet(lab, node, tmp_path) as plugin:
        await lab.pod()
        await lab.bound()
        error = await final_answer(plugin, lab)
        assert "memory-0 cannot be attached: NoLink: no link; delete the pod" in error
        assert true_conditions(lab.claim()) == {FAILED, REFUSED}
        assert lab.tainted() == {"memory-0"}
        await end_pod(lab)
        await lab.pod("pod-2")
        assert await lab.bound("pod-2") == "memory-1"
        assert not await final_answer(plugin, lab, "pod-2")
    assert not node.prepared[:-1]
    assert hardware.log[:2] == [("attach", "memory-0"), ("detach", "memory-0")]


async def test_a_failure_on_the_node_taints_the_device_and_is_returned_by_prepare(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    node = MemoryOnNode("memory-0")
    async with lab.scheduler(), lab.driver(Pools(hardware)), kubelet(lab, node, tmp_path) as plugin:
        await lab.pod()
        await lab.bound()
        assert "memory-0 cannot be attached: NoWindow: no window; delete" in await final_answer(plugin, lab)
        assert true_conditions(lab.claim()) == {ATTACHED, NODE_FAILED, NOT_READY, REFUSED}
        assert lab.tainted() == {"memory-0"}
        await end_pod(lab)
    assert [name for name, _ in node.attached] == ["memory-0"]
    assert not hardware.attached


async def test_a_failure_on_the_node_that_needs_no_taint_is_returned_by_prepare(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    node = MemoryOnNode("memory-0")
    node.error = AttachError("node not ready", device_is_bad=False)
    async with lab.scheduler(), lab.driver(Pools(hardware)), kubelet(lab, node, tmp_path) as plugin:
        await lab.pod()
        await lab.bound()
        assert "AttachFailed: node not ready; delete the pod" in await final_answer(plugin, lab)
        assert true_conditions(lab.claim()) == {ATTACHED, REFUSED}
        assert not lab.tainted()


async def test_a_device_that_declares_no_conditions_is_prepared_at_once(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    ready = Device("ready-0", node_name=NODE)
    async with (
        lab.scheduler(),
        lab.driver(Pools(hardware, others=[ready])),
        kubelet(lab, MemoryOnNode(), tmp_path) as plugin,
    ):
        await lab.pod()
        assert await lab.bound() == "ready-0"
        assert not (await answer_of(plugin, lab)).error
    assert not hardware.log
    assert not conditions(lab.claim())


async def test_a_restart_or_a_taint_withdraws_no_device(lab: Lab, hardware: Hardware) -> None:
    """A node looks up a device while the driver computes its fallback again."""
    hardware.bad.add("memory-0")
    seen: list[set[str]] = []
    async with lab.scheduler():
        async with lab.driver(Pools(hardware)):
            await lab.until(lambda *_: len(lab.devices()) == 2)
            lab.seen.slices.subscribe(lambda *_: seen.append(set(lab.devices())))
            await lab.pod()
            await lab.until(lambda *_: lab.tainted() == {"memory-0"})
        async with lab.driver(Pools(hardware)):
            hardware.bad.clear()
            await end_pod(lab)
            await lab.pod("pod-2")
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims.get("default/pod-2")))
    assert seen
    assert all(devices == {"memory-0", "memory-1"} for devices in seen)


async def test_a_device_that_binds_to_its_node_is_withdrawn(lab: Lab, hardware: Hardware) -> None:
    """The API server drops `bindsToNode` too, so nobody would know the node to attach it to."""
    async with lab.driver(Pools(hardware, others=[replace(gpu("gpu-0"), node_name=NODE)])):
        await lab.until(lambda *_: "memory-0" in lab.devices())
        assert lab.devices().keys() == {"memory-0", "memory-1"}


async def test_a_device_that_discover_does_not_return_is_neither_attached_nor_detached(
    lab: Lab, hardware: Hardware
) -> None:
    """It is in one claim's record, and another claim was allocated while the driver was away."""
    async with lab.scheduler():
        async with lab.driver(Pools(hardware)):
            await lab.pod()
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims.get("default/pod-1")))
        await lab.pod("pod-2")
        assert await lab.bound("pod-2") == "memory-1"
        pools = Pools(hardware)
        known = pools.pools[0].devices
        pools.offer([])
        async with lab.driver(pools):
            await lab.until(lambda *_: not lab.devices())
            assert read_record(lab.claim(), DRIVER)
            assert not read_record(lab.claim("pod-2"), DRIVER)
            assert hardware.log == [("attach", "memory-0")]
            pools.offer(known)
            pools.rediscover()
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims["default/pod-2"]))
            assert hardware.attached.keys() == {"memory-0", "memory-1"}
            await end_pod(lab)
            await end_pod(lab, "pod-2")
    assert not hardware.attached


class Before(Pools):
    """An earlier version, without conditions."""

    def discover(self) -> object:  # type: ignore[override]
        return self.fallback({"bindingConditions"})


async def test_a_prepared_claim_is_attached_by_its_pool_driver_and_left_alone_on_its_node(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    """An earlier version of the driver did everything in prepare, and its pod runs."""
    node = MemoryOnNode()
    async with lab.scheduler(), kubelet(lab, node, tmp_path) as plugin:
        async with lab.driver(Before(hardware)):
            await lab.pod()
            await lab.bound()
            assert not (await answer_of(plugin, lab)).error
        async with lab.driver(Pools(hardware)):
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims["default/pod-1"]))
            assert not (await answer_of(plugin, lab)).error
            await lab.pod("pod-2")
            await lab.bound("pod-2")
            assert not await final_answer(plugin, lab, "pod-2")
            assert [name for name, _ in node.attached] == ["memory-1"]
            assert REFUSED not in conditions(lab.claim())
            await end_pod(lab)
    assert hardware.attached.keys() == {"memory-1"}


async def test_a_claim_that_was_left_alone_is_attached_when_it_is_prepared_again(
    lab: Lab, hardware: Hardware, tmp_path: Path
) -> None:
    """Its first pod ends after the node has left it alone, and another pod of the claim begins."""
    node = MemoryOnNode()
    async with lab.scheduler(), kubelet(lab, node, tmp_path) as plugin:
        async with lab.driver(Before(hardware)):
            await lab.pod()
            await lab.bound()
            assert not (await answer_of(plugin, lab)).error
        async with lab.driver(Pools(hardware)):
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims["default/pod-1"]))
            assert not (await answer_of(plugin, lab)).error
            assert not node.attached
            await unprepare(plugin.parts.claims, claim_ref(lab.claim()))
            assert not await final_answer(plugin, lab)
    assert [name for name, _ in node.attached] == ["memory-0"]


async def test_the_gate_is_switched_on_off_and_on(tmp_path: Path, hardware: Hardware) -> None:
    (tmp_path / "registry").mkdir()
    node = MemoryOnNode()
    names = ("memory-0", "memory-1", "memory-2")
    async with laboratory(tmp_path) as on:
        await on.client.delete(NODES, "node-2")
        async with on.scheduler(), on.driver(Pools(hardware, *names)), kubelet(on, node, tmp_path) as plugin:
            await on.pod("pod-1")
            await on.bound("pod-1")
            assert not (await answer_of(plugin, on, "pod-1")).error
    hardware.open.clear()
    async with restarted(tmp_path, **{GATE: False}) as off:
        for published in list(off.seen.slices.items.values()):
            # The API server keeps fields that a stored slice has, so slices must be written anew.
            await off.client.delete(SLICES, published.metadata.name)
        async with off.scheduler(), off.driver(Pools(hardware, *names)):
            await off.pod("pod-2")
            assert await off.bound("pod-2") == "memory-1"
            assert not off.claim("pod-2").results[0].binding_conditions
    async with (
        restarted(tmp_path) as again,
        again.scheduler(),
        again.driver(Pools(hardware, *names)),
        kubelet(again, node, tmp_path) as plugin,
    ):
        await again.until(lambda *_: bool(again.devices()["memory-1"].binding_conditions))
        assert "in progress" in (await answer_of(plugin, again, "pod-2")).error
        hardware.open.set()
        assert not await final_answer(plugin, again, "pod-2")
        await again.pod("pod-3")
        assert await again.bound("pod-3") == "memory-2"
        assert again.claim("pod-3").results[0].binding_conditions
        assert not (await answer_of(plugin, again, "pod-3")).error
        assert not (await answer_of(plugin, again, "pod-1")).error
        assert hardware.attached.keys() == set(names)
        for name in ("pod-1", "pod-2", "pod-3"):
            await end_pod(again, name)
    assert not hardware.attached


@pytest.mark.parametrize(
    ("bad", "number"),
    [*((False, number) for number in SUCCESS), *((True, number) for number in FAILURE)],
)
async def test_the_next_pool_driver_continues_after_a_kill_at_any_write(
    lab: Lab, hardware: Hardware, tmp_path: Path, bad: bool, number: int
) -> None:
    """A pod whose device is attached, or fails on its node, and that is deleted."""
    node = MemoryOnNode(*(["memory-0"] if bad else []))
    async with lab.scheduler(), kubelet(lab, node, tmp_path) as plugin:
        async with dying(lab, Pools(hardware), number) as died:
            await lab.pod()
            life = asyncio.create_task(live(plugin, lab))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({life, dead}, return_when="FIRST_COMPLETED")
            dead.cancel()
        async with lab.driver(Pools(hardware)):
            assert ("NoWindow" in await life) == bad
            assert lab.tainted() == ({"memory-0"} if bad else set())
    assert not hardware.attached
    assert [name for name, _ in node.attached] == ["memory-0"]


async def live(plugin: Plugin, lab: Lab) -> str:
    """Prepare the pod until its answer is final, then delete it; return the error."""
    await lab.bound()
    error = await final_answer(plugin, lab)
    await end_pod(lab)
    return error


@pytest.mark.parametrize("number", [1, 2])
async def test_the_next_process_of_the_node_continues_after_a_kill_at_any_write(
    lab: Lab, hardware: Hardware, tmp_path: Path, number: int
) -> None:
    """The writes are the begin of the attach, which is written already, and its end."""

    class Killed(Dying):
        at = number
        died = asyncio.Event()

    node = MemoryOnNode()
    async with lab.scheduler(), lab.driver(Pools(hardware)):
        async with kubelet(lab, node, tmp_path, client_type=Killed):
            await lab.pod()
            await Killed.died.wait()
        async with kubelet(lab, node, tmp_path) as plugin:
            assert not await final_answer(plugin, lab)
            await end_pod(lab)
    assert not hardware.attached
