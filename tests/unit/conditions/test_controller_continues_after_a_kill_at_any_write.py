"""The process of a binding driver dies right after its n-th write; the next process has the same result."""

import asyncio

import pytest

from tests.unit.conditions.fabric import FabricDriver, Hardware, Lab
from tests.unit.conditions.killed import dying

WRITES = 16


@pytest.mark.parametrize("number", range(1, WRITES))
async def test_a_kill_at_any_write_is_continued(lab: Lab, hardware: Hardware, number: int) -> None:
    """A pod whose first device fails, and that is deleted once it runs."""
    hardware.bad.add("gpu-0")
    async with lab.scheduler():
        async with dying(lab, FabricDriver(hardware), number) as died:
            await lab.pod()
            lifetime = asyncio.create_task(run_pod(lab))
            await asyncio.wait(
                {lifetime, dead := asyncio.create_task(died.wait())}, return_when="FIRST_COMPLETED"
            )
            dead.cancel()
        async with lab.driver(FabricDriver(hardware)):
            await lifetime
    assert not hardware.attached
    assert not lab.claim().metadata.annotations


async def run_pod(lab: Lab) -> None:
    assert await lab.bound() == "gpu-1"
    await lab.delete_pod()
    await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
