"""The process of a binding driver that dies right after its n-th write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dradriver.driver import BindingDriver
from dradriver.kube import Client
from dradriver.runner.binding import BindingProcess
from tests.unit.conditions.fabric import Lab


class Dying(Client):
    """A client whose process stops forever after a write."""

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
            if dies:  # also when the write was rejected
                self.died.set()
                await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def dying(lab: Lab, driver: BindingDriver, number: int) -> AsyncIterator[asyncio.Event]:
    """Run the driver's process until its n-th write; yields an event that is set by that write."""
    async with await Dying.connect(lab.kubeconfig) as client:
        client.at, client.died = number, asyncio.Event()
        task = asyncio.create_task(BindingProcess(driver, client).run(asyncio.Event()))
        try:
            yield client.died
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
