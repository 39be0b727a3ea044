"""The API server drops bindingConditions: the fallback omits them, and prepare attaches the devices."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

from dradriver.driver import AllocatedDevice, Claim
from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin
from dradriver.node.state.claim_states import ClaimState
from dradriver.publish import PoolState
from tests.unit.node.plugin_world import prepare
from tests.unit.node.published_world import PoolDriver, allocate, registered, reported, until
from tests.unit.publish.conftest import a_world

WITH = Pool("gpus", (Device("gpu-0", binding_conditions=["attached"], binding_failure_conditions=["lost"]),))
WITHOUT = Pool("gpus", (Device("gpu-0"),))


class FabricDriver(PoolDriver):
    """Its device is attached by a controller before binding, or by prepare."""

    def __init__(self) -> None:
        super().__init__(WITH)
        self.entered, self.attached = asyncio.Event(), asyncio.Event()
        self.prepares = 0
        self.dropped: Collection[str] = ()

    def fallback(self, dropped: Collection[str]) -> list[Pool] | None:
        self.dropped = dropped
        return [WITHOUT]

    async def prepare(self, claim: Claim) -> Mapping[AllocatedDevice, ContainerEdits]:
        self.prepares += 1
        self.entered.set()
        await self.attached.wait()
        return {device: ContainerEdits(env={"GPU": device.name}) for device in claim.devices}


async def is_prepared(plugin: Plugin) -> bool:
    return [row.state for row in plugin.prepared()] == [ClaimState.PREPARED]


async def test_the_kubelet_gets_in_progress_until_the_device_is_attached(tmp_path: Path) -> None:
    driver = FabricDriver()
    async with (
        a_world(tmp_path, DRADeviceBindingConditions=False) as world,
        registered(world, tmp_path, driver, prepare_deadline=1.5) as plugin,
    ):
        known = await reported(tmp_path, "gpus", PoolState.FALLBACK)
        (published,) = await world.slices()
        claim = await allocate(world.client, "gpu-0")
        uid = claim.metadata.uid
        await prepare(plugin, claim)  # the driver may be called after the deadline
        await driver.entered.wait()
        first = (await prepare(plugin, claim))[uid]
        second = (await prepare(plugin, claim))[uid]
        driver.attached.set()
        await until(lambda: is_prepared(plugin))
        third = (await prepare(plugin, claim))[uid]
        while "still in progress" in third.error:  # on a busy machine; the kubelet tries again
            third = (await prepare(plugin, claim))[uid]
    assert "bindingConditions" in driver.dropped
    assert {field.gate for field in known.status.dropped} == {"DRADeviceBindingConditions"}
    assert published.spec.devices == list(WITHOUT.devices)
    for answer in (first, second):
        assert "still in progress (driver.prepare of device gpu-0" in answer.error
        assert not answer.devices
    assert third.error == ""
    assert [device.device_name for device in third.devices] == ["gpu-0"]
    assert driver.prepares == 1
