"""A `NodeBindingDriver` attaches devices of its node, without a record and without detach."""

import asyncio
from pathlib import Path

import pytest

from dradriver.node.claims.rebuild import record_hold
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.state.records import ClaimRef
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import DRIVER, Hardware, Lab
from tests.unit.conditions.node_driver import NODE, beside_a_kubelet
from tests.unit.node.plugin_world import prepare


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "registry").mkdir()
    return tmp_path


async def test_a_pod_waits_until_its_device_is_attached(lab: Lab, hardware: Hardware, folder: Path) -> None:
    hardware.open.clear()
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder):
        await lab.pod()
        await lab.waits()
        hardware.open.set()
        assert await lab.bound() == "half-0"
        assert list(hardware.attached.values()) == [(lab.claim().metadata.uid, NODE)]
        assert not lab.claim().metadata.annotations
        assert not [each for each in lab.claim().metadata.finalizers if DRIVER in each]


async def test_a_failed_device_is_tainted_and_the_pod_gets_another(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    hardware.bad.add("half-0")
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder):
        await lab.pod()
        assert await lab.bound() == "half-1"
        assert lab.tainted() == {"half-0"}


async def test_the_next_process_keeps_the_taint(lab: Lab, hardware: Hardware, folder: Path) -> None:
    hardware.bad.add("half-0")
    async with lab.scheduler():
        async with beside_a_kubelet(lab, hardware, folder):
            await lab.pod()
            await lab.bound()
        async with beside_a_kubelet(lab, hardware, folder):
            await lab.delete_pod()
            await lab.pod("pod-2")
            assert await lab.bound("pod-2") == "half-1"
            assert lab.tainted() == {"half-0"}


async def test_the_next_process_repeats_an_interrupted_attach(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    hardware.open.clear()
    async with lab.scheduler():
        async with beside_a_kubelet(lab, hardware, folder):
            await lab.pod()
            await lab.waits()
        hardware.open.set()
        async with beside_a_kubelet(lab, hardware, folder):
            assert await lab.bound() == "half-0"


async def test_a_device_that_overlaps_with_a_prepared_device_is_not_attached(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    """A pod was deleted by force: the scheduler reuses its devices while its container still runs."""
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder) as plugin:
        await lab.pod()
        await lab.bound()
        first = lab.claim()
        assert not (await prepare(plugin, first))[first.metadata.uid].error
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        await lab.pod("pod-2")
        await lab.waits("pod-2")
        assert plugin.prepared()
        assert hardware.log == [("attach", "half-0")]
        await unprepare(plugin.parts.claims, ClaimRef(first.metadata.uid, "default", "pod-1"))
        await lab.bound("pod-2")
        assert hardware.log == [("attach", "half-0")] * 2


async def test_a_deallocated_claim_in_a_rebuilt_state_does_not_block_its_device(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    """A rebuilt state contains all reserved claims, also those that are released before they are prepared."""
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder) as plugin:
        await lab.pod()
        await lab.bound()
        await record_hold(plugin.parts.claims, lab.claim())
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        await lab.pod("pod-2")
        await lab.bound("pod-2")
        assert hardware.log == [("attach", "half-0")] * 2


async def wait_until_elected(plugin: BindingPlugin) -> None:
    """Wait until the instance publishes and attaches; the other one has then stopped."""
    while plugin._binding is None:
        await asyncio.sleep(0.01)


async def test_during_a_rolling_update_one_process_attaches(lab: Lab, hardware: Hardware, folder: Path) -> None:
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder, "old"):
        await lab.pod("pod-1")
        await lab.bound("pod-1")
        old, hardware.log[:] = list(hardware.log), []
        async with beside_a_kubelet(lab, hardware, folder, "new") as new:
            await wait_until_elected(new)
            await lab.pod("pod-2")
            await lab.bound("pod-2")
        assert old == [("attach", "half-0")]
        assert hardware.log == [("attach", "half-1")]


async def test_the_new_process_of_a_rolling_update_repeats_an_interrupted_attach(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder, "old"):
        hardware.open.clear()
        await lab.pod()
        await lab.until(lambda _, claims: any(claim.allocation is not None for claim in claims.values()))
        async with beside_a_kubelet(lab, hardware, folder, "new") as new:
            await wait_until_elected(new)
            hardware.open.set()
            await lab.bound()
        assert hardware.log == [("attach", "half-0")]
