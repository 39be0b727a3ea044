"""Keep failed devices from new claims, through taints in the published slices.

If the process dies at any point, the taints are in the slices, where the next process finds them with the times
at which they were added.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from dradriver.conditions.quarantine.bad_devices import BadDevices, FailureReason, is_unavailable
from dradriver.driver import Attaching
from dradriver.errors import DraError
from dradriver.kube import SLICES, Client
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Quarantine"]

_RETRY_SECONDS: Final = (0.02, 5.0)


class Quarantine:
    """The taints of a driver's failed devices: `await adopt()`, then `await run()` works until it is canceled.

    Args:
        driver: the driver's name.
        client: the API server.
        publish_again: publishes the pools again, with `add_taints`.
        on_error: called for failures that are retried.
    """

    def __init__(
        self,
        driver: Attaching,
        client: Client,
        publish_again: Callable[[], None],
        on_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._driver = driver.name
        self._client = client
        self._publish_again = publish_again
        self._on_error = on_error
        self._bad = BadDevices(
            driver.name, timedelta(seconds=driver.quarantine_seconds), lambda: datetime.now(UTC)
        )
        self._changed = asyncio.Event()

    async def adopt(self) -> None:
        """Adopt the taints of an earlier process; call it before anything is published."""
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            try:
                self._bad.adopt(await self._slices())
            except DraError:
                await asyncio.sleep(backoff.next())
            else:
                return

    async def run(self) -> None:
        """Remove taints when their time is over, until canceled."""
        while True:
            self._changed.clear()
            remaining = self._bad.expire()
            self._publish_again()
            try:
                async with asyncio.timeout(remaining.total_seconds() if remaining is not None else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def add_taints(self, pools: Sequence[Pool]) -> list[Pool]:
        """Return the pools with a taint on each bad device."""
        return self._bad.add_taints(pools)

    def taint(self, pool: str, device: str, reason: FailureReason) -> None:
        """Taint the device; returns before the taint is published.

        A caller that holds the lock of a device must use this: while the API server rejects slices, `add` does
        not return.
        """
        self._bad.add(pool, device, reason)
        self._changed.set()
        self._publish_again()

    async def add(self, pool: str, device: str, reason: FailureReason) -> None:
        """Taint the device; returns when only claims that tolerate the taint can get it.

        `quarantine_seconds` begin when the taint is published. Otherwise the taint could expire before the API
        server has stored it, and this method would not return.
        """
        self._bad.add(pool, device, reason, expires=False)
        self._publish_again()
        try:
            await self._wait_published(pool, device)
        finally:
            if self._bad.discard(pool, device, reason):  # else the device works again
                self.taint(pool, device, reason)

    async def _wait_published(self, pool: str, device: str) -> None:
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            try:
                if is_unavailable(await self._slices(pool), pool, device):
                    return
            except DraError:
                self._on_error("taint")
            await asyncio.sleep(backoff.next())

    def remove(self, pool: str, device: str, reason: FailureReason) -> None:
        """Remove this taint, if present, because the device works."""
        if self._bad.discard(pool, device, reason):
            self._publish_again()

    async def _slices(self, pool: str = "") -> list[ResourceSlice]:
        selector = f"spec.driver={self._driver}" + (f",spec.pool.name={pool}" if pool else "")
        return (await self._client.list(SLICES, into=ResourceSlice, fields=selector)).items
