"""A binding driver at work: a pool driver whose devices are also attached and detached."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from dradriver.conditions.bad_devices import BadDevices, kept_away
from dradriver.conditions.controller import BindingController
from dradriver.driver import BindingDriver
from dradriver.errors import DraError
from dradriver.kube import SLICES, Client
from dradriver.kube.backoff import Backoff
from dradriver.model.pool import Pool
from dradriver.model.slices import ResourceSlice
from dradriver.node.background import Background
from dradriver.node.calls import Calls
from dradriver.publish import OwnerRef
from dradriver.runner.pools import PoolProcess

__all__ = ["BindingProcess"]

_RETRY_SECONDS: Final = (0.02, 5.0)


class BindingProcess(PoolProcess):
    """Runs one binding driver: `await run(stop)`, once; see `PoolProcess`."""

    def __init__(self, driver: BindingDriver, client: Client, owner: OwnerRef | None = None) -> None:
        super().__init__(driver, client, owner)
        self._binding = driver
        self._discovered: Sequence[Pool] = ()
        hold_off = timedelta(seconds=driver.hold_off_seconds)
        self._bad = BadDevices(driver.name, hold_off, lambda: datetime.now(UTC))
        self._bad_changed = asyncio.Event()

    def start(self, calls: Calls, background: Background) -> None:
        """Starts what runs beside discovery and publishing."""
        controller = BindingController(
            self._binding,
            self._client,
            calls=calls,
            device=self._inventory.device,
            keeper=self,
            on_error=self.metrics.background_error,
        )
        background.start("hold off", self._hold_off())
        background.start("attach", controller.run())

    async def adopt(self) -> None:
        """Before anything is published: what an earlier process kept away stays away."""
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            try:
                self._bad.adopt(await self._slices())
            except DraError:
                await asyncio.sleep(backoff.next())
            else:
                return

    async def keep_away(self, pool: str, device: str) -> None:
        """Taints the device; returns when the API server has it so."""
        self._bad.add(pool, device)
        self._bad_changed.set()
        self._publish_again()
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            await self._publisher.settled(_RETRY_SECONDS[1])
            try:
                if kept_away(await self._slices(pool), pool, device):
                    return
            except DraError:
                self.metrics.background_error("taint")
            await asyncio.sleep(backoff.next())

    def welcome(self, pool: str, device: str) -> None:
        """The device works."""
        if self._bad.discard(pool, device):
            self._publish_again()

    def _want(self, pools: Sequence[Pool]) -> None:
        self._discovered = pools
        super()._want(self._bad.tainted(pools))

    def _publish_again(self) -> None:
        super()._want(self._bad.tainted(self._discovered))

    async def _hold_off(self) -> None:
        """Takes taints away when their time is over."""
        while True:
            self._bad_changed.clear()
            left = self._bad.expire()
            if self._discovered:
                self._publish_again()
            try:
                async with asyncio.timeout(left.total_seconds() if left is not None else None):
                    await self._bad_changed.wait()
            except TimeoutError:
                continue

    async def _slices(self, pool: str = "") -> list[ResourceSlice]:
        selector = f"spec.driver={self._binding.name}" + (f",spec.pool.name={pool}" if pool else "")
        return (await self._client.list(SLICES, into=ResourceSlice, fields=selector)).items
