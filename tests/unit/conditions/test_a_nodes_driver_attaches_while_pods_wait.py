"""`NodeBindingDriver`: the node's own devices, attached beside the kubelet; no record, no detach."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dradriver.driver import AllocatedDevice, BindingClaim, Claim, NodeBindingDriver, PreparedDevice
from dradriver.kube import Client
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import PluginConfig
from dradriver.node.claims.rebuild import hold
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.state.records import ClaimRef
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, Hardware, Lab
from tests.unit.node.plugin_world import notify, prepare

NODE = "node-1"


def card(name: str, memory: int) -> Device:
    return Device(
        name,
        binding_conditions=[ATTACHED],
        binding_failure_conditions=[FAILED],
        consumes_counters=[CounterConsumption("card", {"memory": memory})],
    )


class CardDriver(NodeBindingDriver):
    name = DRIVER
    rescan_seconds = None

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware

    def discover(self) -> Sequence[Pool]:
        sets = (CounterSet("card", {"memory": 2}),)
        return [Pool(devices=(card("half-0", 1), card("half-1", 1), card("whole", 2)), counter_sets=sets)]

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        await self.hardware.open.wait()
        self.hardware.attached.pop(device.name, None)
        self.hardware.attach(device.name, claim.uid, claim.node)

    def prepare(self, claim: Claim) -> Mapping[AllocatedDevice, PreparedDevice]:
        return {device: PreparedDevice() for device in claim.devices}


@asynccontextmanager
async def beside_a_kubelet(
    lab: Lab, hardware: Hardware, folder: Path, pod_uid: str = ""
) -> AsyncIterator[BindingPlugin]:
    async with await Client.connect(lab.kubeconfig) as client:
        config = PluginConfig(
            NODE,
            plugins_dir=folder / "plugins",
            registry_dir=folder / "registry",
            cdi_dir=folder / "cdi",
            boot_id="boot-1",
            pod_uid=pod_uid,
        )
        plugin = BindingPlugin(CardDriver(hardware), client, config)
        await plugin.start()
        await notify(plugin)
        try:
            yield plugin
        finally:
            await plugin.stop(1)


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


async def test_a_device_that_fails_is_tainted_and_the_next_one_taken(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    hardware.bad.add("half-0")
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder):
        await lab.pod()
        assert await lab.bound() == "half-1"
        assert lab.tainted() == {"half-0"}


async def test_the_taint_outlives_the_process(lab: Lab, hardware: Hardware, folder: Path) -> None:
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


async def test_what_a_process_began_the_next_one_does_again(lab: Lab, hardware: Hardware, folder: Path) -> None:
    hardware.open.clear()
    async with lab.scheduler():
        async with beside_a_kubelet(lab, hardware, folder):
            await lab.pod()
            await lab.waits()
        hardware.open.set()
        async with beside_a_kubelet(lab, hardware, folder):
            assert await lab.bound() == "half-0"


async def test_a_device_that_overlaps_with_a_prepared_one_is_not_touched(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    """A pod was deleted by force: its claim is free for the scheduler, its container runs still."""
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


async def test_a_claim_that_a_rebuilt_state_holds_but_that_is_gone_keeps_its_device_from_nobody(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    """A rebuilt state holds what is reserved; the claim may have been given back before it was prepared."""
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder) as plugin:
        await lab.pod()
        await lab.bound()
        await hold(plugin.parts.claims, lab.claim())
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        await lab.pod("pod-2")
        await lab.bound("pod-2")
        assert hardware.log == [("attach", "half-0")] * 2


async def has_its_turn(plugin: BindingPlugin) -> None:
    """Waits until the instance publishes and attaches; the other one has stopped by then."""
    while plugin._binding is None:
        await asyncio.sleep(0.01)


async def test_of_two_processes_in_a_rolling_update_one_attaches(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder, "old"):
        await lab.pod("pod-1")
        await lab.bound("pod-1")
        old, hardware.log[:] = list(hardware.log), []
        async with beside_a_kubelet(lab, hardware, folder, "new") as new:
            await has_its_turn(new)
            await lab.pod("pod-2")
            await lab.bound("pod-2")
        assert old == [("attach", "half-0")]
        assert hardware.log == [("attach", "half-1")]


async def test_an_attach_that_a_rolling_update_cuts_off_is_made_by_the_new_process(
    lab: Lab, hardware: Hardware, folder: Path
) -> None:
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, folder, "old"):
        hardware.open.clear()
        await lab.pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is not None)
        async with beside_a_kubelet(lab, hardware, folder, "new") as new:
            await has_its_turn(new)
            hardware.open.set()
            await lab.bound()
        assert hardware.log == [("attach", "half-0")]
