"""The driver: what the SDK calls, and how the cards are opened."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

import dradriver as dra
from dradriver_fpga.attach_errors import attach_error
from dradriver_fpga.bitstreams import BitstreamError, Cache, FailedBitstreams, Sources
from dradriver_fpga.card import CardError, Cards, Hardware
from dradriver_fpga.configs import FpgaConfig, RequestedBitstream
from dradriver_fpga.containers import prepared
from dradriver_fpga.factory import choose
from dradriver_fpga.node import CardInventory
from dradriver_fpga.offer import DRIVER, Kind
from dradriver_fpga.programming import Programmer
from dradriver_fpga.settings import VARIABLE, read_settings

__all__ = ["FpgaDriver"]

_log: Final = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 10.0
"""The kubelet forgets a report after 30."""


@dataclass(frozen=True, slots=True)
class _Opened:
    inventory: CardInventory
    programmer: Programmer


class FpgaDriver(dra.NodeBindingDriver):
    """FPGAs: whole cards, regions and slots; programmed while a pod waits.

    Args:
        settings: YAML; None: `$FPGA_SETTINGS`.
        hardware: the cards; None: the node's, or the simulator where that is wanted.

    Raises:
        UsageError: the settings can't be used.
    """

    name = DRIVER
    configs = (FpgaConfig,)
    rescan_seconds = None  # `Cards` looks again by itself

    def __init__(self, settings: str | None = None, hardware: Hardware | None = None) -> None:
        self._settings = read_settings(os.environ.get(VARIABLE, "") if settings is None else settings)
        self._hardware = hardware
        self._stack = AsyncExitStack()
        self._node: _Opened | None = None
        self._opening = asyncio.Lock()
        self._news = asyncio.Event()

    async def discover(self) -> list[dra.Pool]:
        """What the cards offer now, and those that were pulled a moment ago."""
        return [(await self._opened()).inventory.pool()]

    async def fallback(self, dropped: Collection[str]) -> list[dra.Pool] | None:
        """The same without what the server drops."""
        return [(await self._opened()).inventory.safe_without(dropped)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        """Programs the device; at once if it holds what the claim asks for."""
        programmer = (await self._opened()).programmer
        try:
            await programmer.ensure(device.name, _wanted(device), claim.namespace)
        except (CardError, BitstreamError) as error:
            raise attach_error(error) from error

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Looks whether the devices hold what they should, and programs those that don't."""
        return {device: await self._prepare(claim, device) for device in claim.devices}

    async def health(self) -> AsyncIterator[Iterable[dra.DeviceHealth]]:
        """Tells how every device is."""
        inventory = (await self._opened()).inventory
        while True:
            yield inventory.reports()
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_REPORT_SECONDS):
                    await self._news.wait()

    async def shutdown(self) -> None:
        """Lets go of the cards; they keep what they hold."""
        await self._stack.aclose()

    async def _prepare(self, claim: dra.Claim, device: dra.AllocatedDevice) -> dra.PreparedDevice:
        programmer = (await self._opened()).programmer
        if device.admin_access:
            offer = await programmer.find(device.name)
            if offer.kind is Kind.MANAGEMENT:
                raise dra.DraError(f"{device.name} is given with no admin access: others may use the card")
            return prepared(offer)
        return prepared(await programmer.ensure(device.name, _wanted(device), claim.namespace))

    async def _opened(self) -> _Opened:
        """The node; it is opened by whoever comes first, and again by the next one if that fails."""
        async with self._opening:
            if self._node is None:
                self._node = await self._open()
            return self._node

    async def _open(self) -> _Opened:
        if self._hardware is not None:
            hardware, settings = self._hardware, self._settings
        else:
            hardware, settings = await asyncio.to_thread(choose, self._settings, self.simulate, self.data_dir)
        cards = await self._stack.enter_async_context(Cards(hardware, rescan=settings.rescan_seconds))
        sources = Sources(settings.bitstreams, self.read_config_map)
        cache = Cache(self.data_dir / "bitstreams", settings.bitstreams, sources)
        failed = FailedBitstreams(self.data_dir / "failed-bitstreams.json")
        programmer = Programmer(cards, cache, failed, settings)
        self._stack.push_async_callback(programmer.close)
        inventory = CardInventory(settings)
        inventory.learn(await cards.read())
        following = asyncio.create_task(self._follow(cards, inventory), name="changes of the FPGAs")
        self._stack.push_async_callback(_end, following)
        return _Opened(inventory, programmer)

    async def _follow(self, cards: Cards, inventory: CardInventory) -> None:
        """What is published follows this alone: two who look could each miss what the other one saw."""
        changes = cards.changes()
        look = asyncio.ensure_future(anext(changes))
        try:
            while True:
                await asyncio.wait({look}, timeout=inventory.due())
                if look.done():
                    inventory.learn(look.result())
                    look = asyncio.ensure_future(anext(changes))
                else:
                    inventory.forget()
                self._news.set()
                self.rediscover()
        except Exception as error:
            self.restart(f"the FPGAs can't be followed any more: {error!r}")
            raise
        finally:
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)
            await changes.aclose()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _wanted(device: dra.AllocatedDevice) -> RequestedBitstream | None:
    config = device.config(FpgaConfig)
    return config.bitstream if config is not None else None
