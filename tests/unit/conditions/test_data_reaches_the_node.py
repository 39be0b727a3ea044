"""The data that a pool driver sets reaches `attach` and `prepare` of its node."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dradriver.driver import AllocatedDevice, BindingClaim
from dradriver.errors import DraError
from dradriver.kube import NODES
from tests.unit.conditions.fabric import ATTACHED, Hardware, Lab
from tests.unit.conditions.two_halves import MemoryOnNode, MemoryPools, on_node, true_conditions
from tests.unit.node.plugin_world import prepare

DATA = {"serial": "serial of memory-0"}


@pytest.fixture
async def folder(lab: Lab, tmp_path: Path) -> Path:
    await lab.client.delete(NODES, "node-2")
    (tmp_path / "registry").mkdir()
    return tmp_path


async def test_attach_and_prepare_on_the_node_get_the_data(lab: Lab, hardware: Hardware, folder: Path) -> None:
    node = MemoryOnNode()
    async with (
        lab.scheduler(),
        lab.driver(MemoryPools(hardware)),
        on_node(lab, node, folder) as plugin,
    ):
        await lab.pod()
        await lab.bound()
        claim = lab.claim()
        assert not (await prepare(plugin, claim))[claim.metadata.uid].error
    assert node.attached == [("memory-0", DATA)]
    assert node.prepared == [DATA]


async def test_the_next_attach_of_a_pool_driver_gets_its_own_data(lab: Lab, hardware: Hardware) -> None:
    """Such as a handle of work that the hardware continues."""
    found: list[Mapping[str, object] | None] = []

    class Interrupted(MemoryPools):
        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            found.append(device.data)
            if device.data is None:
                await claim.conditions.set_data(device, {"task": 7})
            await super().attach(claim, device)

    hardware.open.clear()
    async with lab.scheduler():
        async with lab.driver(Interrupted(hardware)):
            await lab.pod()
            await lab.until(
                lambda _, claims: any(
                    c.status.devices and c.status.devices[0].data_object for c in claims.values()
                )
            )
        hardware.open.set()
        async with lab.driver(Interrupted(hardware)):
            await lab.until(lambda _, claims: ATTACHED in true_conditions(claims["default/pod-1"]))
    assert found == [None, {"task": 7}]
    assert lab.claim().status.devices[0].data_object == DATA


async def test_a_node_cannot_set_data(lab: Lab, hardware: Hardware, folder: Path) -> None:
    errors: list[str] = []

    class Writing(MemoryOnNode):
        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            try:
                await claim.conditions.set_data(device, {"serial": "another"})
            except DraError as error:
                errors.append(str(error))

    async with lab.scheduler(), lab.driver(MemoryPools(hardware)), on_node(lab, Writing(), folder):
        await lab.pod()
        await lab.bound()
        (entry,) = lab.claim().status.devices
        assert entry.data_object == DATA
    (error,) = errors
    assert "must be set by a BindingDriver, a NodeBindingDriver can only read it" in error
