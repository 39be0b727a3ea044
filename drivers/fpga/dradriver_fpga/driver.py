"""The driver class that the SDK calls. It also opens the cards."""

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
"""Interval of health reports. The kubelet drops a report after 30 seconds."""


@dataclass(frozen=True, slots=True)
class _Opened:
    inventory: CardInventory
    programmer: Programmer


class FpgaDriver(dra.NodeBindingDriver):
    """DRA driver for FPGAs: whole cards, regions and slots. It programs them while a pod waits.

    Args:
        settings: YAML; None: the value of `$FPGA_SETTINGS`.
        hardware: the cards; None: those of the node, or the simulator if it is configured or no card is found.

    Raises:
        UsageError: the settings are invalid.
    """

    name = DRIVER
    configs = (FpgaConfig,)
    rescan_seconds = None  # `Cards` rescans by itself

    def __init__(self, settings: str | None = None, hardware: Hardware | None = None) -> None:
        self._settings = read_settings(os.environ.get(VARIABLE, "") if settings is None else settings)
        self._hardware = hardware
        self._stack = AsyncExitStack()
        self._node: _Opened | None = None
        self._opening = asyncio.Lock()
        self._news = asyncio.Event()

    async def discover(self) -> list[dra.Pool]:
        """Return the pool of devices that the cards offer now, with recently pulled ones."""
        return [(await self._opened()).inventory.pool()]

    async def fallback(self, dropped: Collection[str]) -> list[dra.Pool] | None:
        """Return the pool without the fields that the server drops."""
        return [(await self._opened()).inventory.safe_without(dropped)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        """Program the device. Returns at once if it has the content that the claim requests."""
        programmer = (await self._opened()).programmer
        try:
            await programmer.ensure(device.name, _wanted(device), claim.namespace)
        except (CardError, BitstreamError) as error:
            raise attach_error(error) from error

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Check the content of the devices, and program those that do not have the requested one."""
        return {device: await self._prepare(claim, device) for device in claim.devices}

    async def health(self) -> AsyncIterator[Iterable[dra.DeviceHealth]]:
        """Yield the health of every device after each change, and at least every 10 seconds."""
        inventory = (await self._opened()).inventory
        while True:
            yield inventory.reports()
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_REPORT_SECONDS):
                    await self._news.wait()

    async def shutdown(self) -> None:
        """Close the cards. They keep their content."""
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
        """Return the opened node. The first caller opens it; if that fails, the next caller tries again."""
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
        """Follow changes of the cards.

        Only this task updates the inventory, because two readers could miss changes.
        """
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
