"""The driver class that the SDK calls. It also opens the cards."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

import dradriver as dra
from dradriver_fpga.attach_errors import to_attach_error
from dradriver_fpga.bitstreams import BitstreamCache, BitstreamError, BitstreamSources, FailedBitstreams
from dradriver_fpga.card import FpgaCards, FpgaError, FpgaHardware
from dradriver_fpga.configs import FpgaConfig, RequestedBitstream
from dradriver_fpga.containers import make_prepared_device
from dradriver_fpga.factory import choose_hardware
from dradriver_fpga.node import CardInventory
from dradriver_fpga.offer import DRIVER, FpgaDeviceKind
from dradriver_fpga.programming import Programmer
from dradriver_fpga.settings import VARIABLE, read_settings

__all__ = ["FpgaDriver"]

_log: Final = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 10.0
"""Interval of health reports. The kubelet drops a report after 30 seconds."""


@dataclass(frozen=True, slots=True)
class _OpenNode:
    inventory: CardInventory
    programmer: Programmer


class FpgaDriver(dra.NodeBindingDriver):
    """DRA driver for FPGAs: whole cards, regions and slots. It programs devices while a pod waits.

    Args:
        settings: YAML; None: the value of `$FPGA_SETTINGS`.
        hardware: the cards; None: the cards of the node, or the simulator if it is configured or no card is
            found.

    Raises:
        UsageError: the settings are invalid.
    """

    name = DRIVER
    configs = (FpgaConfig,)
    rescan_seconds = None  # `FpgaCards` rescans by itself
    shutdown_seconds = 3600.0  # a write of a shell is not interrupted; the chart's grace period is longer

    def __init__(self, settings: str | None = None, hardware: FpgaHardware | None = None) -> None:
        self._settings = read_settings(os.environ.get(VARIABLE, "") if settings is None else settings)
        self._hardware = hardware
        self._stack = AsyncExitStack()
        self._node: _OpenNode | None = None
        self._opening_lock = asyncio.Lock()
        self._changed = asyncio.Event()

    async def discover(self) -> list[dra.Pool]:
        """Return the pool of devices that the cards offer now, and of devices on recently pulled cards."""
        return [(await self._get_node()).inventory.build_pool()]

    async def fallback(self, dropped: Collection[str]) -> list[dra.Pool] | None:
        """Return the pool in a layout that does not need the fields that the API server drops.

        Args:
            dropped: names of the fields that the API server drops.
        """
        return [(await self._get_node()).inventory.select_safe_without(dropped)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        """Program the device. Returns at once if the device already has the content that the claim requests.

        Args:
            claim: the allocated claim, whose pod waits.
            device: a device of the claim.

        Raises:
            AttachError: the card or the bitstream failed.

        Source:
            KEP-5007, binding conditions.
        """
        programmer = (await self._get_node()).programmer
        try:
            await programmer.ensure(device.name, _find_requested_bitstream(device), claim.namespace)
        except (FpgaError, BitstreamError) as error:
            raise to_attach_error(error) from error

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Check the content of the devices, and program each device that does not have the requested content.

        Args:
            claim: the allocated claim.

        Returns:
            The container edits and metadata of each device.
        """
        return {device: await self._prepare(claim, device) for device in claim.devices}

    async def health(self) -> AsyncIterator[Iterable[dra.DeviceHealth]]:
        """Yield the health of every device after each change, and at least every 10 seconds."""
        inventory = (await self._get_node()).inventory
        while True:
            yield inventory.report_health()
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_REPORT_SECONDS):
                    await self._changed.wait()

    async def shutdown(self) -> None:
        """Close the cards. The cards keep their content."""
        await self._stack.aclose()

    async def _prepare(self, claim: dra.Claim, device: dra.AllocatedDevice) -> dra.PreparedDevice:
        programmer = (await self._get_node()).programmer
        if device.admin_access:
            offer = await programmer.find(device.name)
            if offer.kind is FpgaDeviceKind.MANAGEMENT:
                raise dra.DraError(
                    f"device {device.name}: admin access is not allowed, because other claims may use the card"
                )
            return make_prepared_device(offer)
        return make_prepared_device(
            await programmer.ensure(device.name, _find_requested_bitstream(device), claim.namespace)
        )

    async def _get_node(self) -> _OpenNode:
        """Return the opened node.

        The first caller opens it; if the opening fails, the next caller tries again.
        """
        async with self._opening_lock:
            if self._node is None:
                self._node = await self._open_node()
            return self._node

    async def _open_node(self) -> _OpenNode:
        if self._hardware is not None:
            hardware, settings = self._hardware, self._settings
        else:
            hardware, settings = await asyncio.to_thread(
                choose_hardware, self._settings, self.simulate, self.data_dir
            )
        cards = await self._stack.enter_async_context(FpgaCards(hardware, rescan=settings.rescan_seconds))
        sources = BitstreamSources(settings.bitstreams, self.read_config_map)
        cache = BitstreamCache(self.data_dir / "bitstreams", settings.bitstreams, sources)
        failed = FailedBitstreams(self.data_dir / "failed-bitstreams.json")
        programmer = Programmer(cards, cache, failed, settings)
        self._stack.push_async_callback(programmer.close)
        inventory = CardInventory(settings)
        inventory.update(await cards.read())
        follower = asyncio.create_task(self._follow(cards, inventory), name="changes of the FPGAs")
        self._stack.push_async_callback(_cancel, follower)
        return _OpenNode(inventory, programmer)

    async def _follow(self, cards: FpgaCards, inventory: CardInventory) -> None:
        """Update the inventory after each change of the cards.

        Only this task updates the inventory, because two tasks that read changes could miss some.
        """
        changes = cards.changes()
        next_cards = asyncio.ensure_future(anext(changes))
        try:
            while True:
                await asyncio.wait({next_cards}, timeout=inventory.next_expiry())
                if next_cards.done():
                    inventory.update(next_cards.result())
                    next_cards = asyncio.ensure_future(anext(changes))
                else:
                    inventory.remove_expired()
                self._changed.set()
                self.rediscover()
        except Exception as error:
            self.restart(f"changes of the FPGAs cannot be read any more: {error!r}")
            raise
        finally:
            next_cards.cancel()
            await asyncio.gather(next_cards, return_exceptions=True)
            await changes.aclose()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _find_requested_bitstream(device: dra.AllocatedDevice) -> RequestedBitstream | None:
    config = device.config(FpgaConfig)
    return config.bitstream if config is not None else None
