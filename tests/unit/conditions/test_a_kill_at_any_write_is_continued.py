"""A binding driver whose process dies right after its n-th write, then runs again: the same end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dradriver.kube import Client
from dradriver.runner.binding import BindingProcess
from tests.unit.conditions.fabric import FabricDriver, Hardware, Lab

WRITES = 16


class Dying(Client):
    """A client whose process stops for ever at a write."""

    at = 0
    died: asyncio.Event

    async def patch(self, *args: Any, **kwargs: Any) -> Any:
        return await self._dying(super().patch, args, kwargs)

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        return await self._dying(super().create, args, kwargs)

    async def replace(self, *args: Any, **kwargs: Any) -> Any:
        return await self._dying(super().replace, args, kwargs)

    async def _dying(self, call: Any, args: Any, kwargs: Any) -> Any:
        self.at -= 1
        dies = self.at == 0
        if self.at < 0:
            await asyncio.get_running_loop().create_future()
        try:
            return await call(*args, **kwargs)
        finally:
            if dies:  # also when the write was refused
                self.died.set()
                await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def dying(lab: Lab, hardware: Hardware, number: int) -> AsyncIterator[asyncio.Event]:
    async with await Dying.connect(lab.kubeconfig) as client:
        client.at, client.died = number, asyncio.Event()
        task = asyncio.create_task(BindingProcess(FabricDriver(hardware), client).run(asyncio.Event()))
        try:
            yield client.died
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("number", range(1, WRITES))
async def test_a_kill_at_any_write_is_continued(lab: Lab, hardware: Hardware, number: int) -> None:
    """A pod whose first device fails, and that is deleted once it runs."""
    hardware.bad.add("gpu-0")
    async with lab.scheduler():
        async with dying(lab, hardware, number) as died:
            await lab.pod()
            life = asyncio.create_task(whole_life(lab))
            await asyncio.wait({life, dead := asyncio.create_task(died.wait())}, return_when="FIRST_COMPLETED")
            dead.cancel()
        async with lab.driver(FabricDriver(hardware)):
            await life
    assert not hardware.attached
    assert not lab.claim().metadata.annotations


async def whole_life(lab: Lab) -> None:
    assert await lab.bound() == "gpu-1"
    await lab.delete_pod()
    await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
