"""The driver class that the SDK calls. It also opens the cards."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import (
    CardError,
    Event,
    Hardware,
    LibraryNotFoundError,
    NotSupportedError,
    VersionMismatchError,
)
from dradriver_gpu_mig.card.simulator import FileStore, SimulatedHardware
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig
from dradriver_gpu_mig.containers import Containers, SimulatedContainers
from dradriver_gpu_mig.instances import State
from dradriver_gpu_mig.node import Node
from dradriver_gpu_mig.offer import DRIVER, non_overlapping
from dradriver_gpu_mig.prepare import Preparing
from dradriver_gpu_mig.settings import VARIABLE, Mode, Settings, read_settings

__all__ = ["GpuDriver"]

_log: Final = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 10.0
"""Interval of health reports. The kubelet drops a report after 30 seconds."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class GpuDriver(dra.Driver):
    """DRA driver for NVIDIA's GPUs, whole and as MIG devices.

    Args:
        settings: YAML; None: the value of `$GPU_MIG_SETTINGS`.
        hardware: the cards; None: NVML, or the simulator if it is configured or no driver is installed.

    Raises:
        UsageError: the settings are invalid.
    """

    name = DRIVER
    configs = (GpuConfig, MigDeviceConfig)
    rescan_seconds = 30.0

    def __init__(self, settings: str | None = None, hardware: Hardware | None = None) -> None:
        self._text = os.environ.get(VARIABLE, "") if settings is None else settings
        read_settings(self._text, "")  # reports invalid settings before anything starts
        self._hardware = hardware
        self._node: Node | None = None
        self._containers: Containers = SimulatedContainers()
        self._opening = asyncio.Lock()
        self._last: dra.Pool | None = None

    async def discover(self) -> list[dra.Pool]:
        """Return the pool of devices that the cards offer now, with taints for their errors.

        If NVIDIA's driver was replaced, the process asks for its restart.
        """
        try:
            self._last = await (await self._opened()).discover()
        except VersionMismatchError as error:
            self.restart(f"NVIDIA's driver was replaced: {error}")
            raise
        return [self._last]

    async def fallback(self, dropped: Collection[str]) -> list[dra.Pool] | None:
        """Return the last pool without the fields that the server drops.

        Without counters, the pool holds no two devices that overlap.
        """
        if self._last is None:
            return None
        held = {record.device for record in await asyncio.to_thread((await self._opened()).record_store.all)}
        return [non_overlapping(self._last, held, groups_only=set(dropped) == {"compatibilityGroups"})]

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Create instances, switch MIG and apply the settings that the claim requests."""
        return await Preparing(await self._opened(), self._containers).prepare(claim)

    async def unprepare(self, claim: dra.Claim) -> None:
        """Revert everything that `prepare` did for the claim."""
        await Preparing(await self._opened(), self._containers).unprepare(claim)

    async def prepared_claims(self) -> Collection[str]:
        """Return the UIDs of claims for which an instance was created or a setting changed."""
        records = await asyncio.to_thread((await self._opened()).record_store.all)
        return {record.claim for record in records if record.state is not State.DESTROYING}

    async def health(self) -> AsyncIterator[Iterable[dra.DeviceHealth]]:
        """Listen to events of the cards, and yield the health of every device at least every 10 seconds."""
        node = await self._there()
        news: asyncio.Queue[Event] = asyncio.Queue()
        listening = asyncio.create_task(_listen(node, news), name="events of the GPUs")
        try:
            while True:
                yield node.reports()
                if listening.done():
                    listening.result()  # the task ends only by an error; the SDK calls health() again
                with suppress(TimeoutError):
                    event = await asyncio.wait_for(news.get(), _REPORT_SECONDS)
                    if await node.hear(event):
                        self.rediscover()
                        continue
                if node.unsure:
                    self.rediscover()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def shutdown(self) -> None:
        """Close the cards. Instances stay."""
        if self._node is not None:
            await self._node.__aexit__(None, None, None)

    async def _there(self) -> Node:
        """Return the node as soon as cards can be opened.

        `discover` reports the reason while there are none.
        """
        while True:
            try:
                return await self._opened()
            except CardError:
                await asyncio.sleep(_REPORT_SECONDS)

    async def _opened(self) -> Node:
        """Return the node. The first caller opens it; if that fails, the next caller tries again."""
        async with self._opening:
            if self._node is None:
                settings = read_settings(self._text, self.node_name)
                boot = await asyncio.to_thread(_BOOT_ID.read_text)
                self._node = await self._open(settings, boot.strip())
            return self._node

    async def _open(self, settings: Settings, boot: str) -> Node:
        if self._hardware is not None or self.simulate == "always":
            return await self._started(self._hardware or self._simulated(settings), settings, boot)
        try:
            # NVML's binding and the readers of the node's files, which a simulator or a check does not need.
            from dradriver_gpu_mig.factory import real_cards  # noqa: PLC0415

            real, self._containers = real_cards(settings.host)
            return await self._started(real, settings, boot)
        except LibraryNotFoundError:
            if self.simulate == "never":
                raise
        self._containers = SimulatedContainers()
        return await self._started(self._simulated(settings), settings, boot)

    def _simulated(self, settings: Settings) -> SimulatedHardware:
        models = settings.simulator.models
        _log.warning("there is no card here: simulating %s", ", ".join(models))
        store = FileStore(self.data_dir / "simulated-cards.json")
        return SimulatedHardware(models, store=store, node=self.node_name, mig=settings.simulator.mig)

    async def _started(self, hardware: Hardware, settings: Settings, boot: str) -> Node:
        simulated = isinstance(hardware, SimulatedHardware)
        mode = settings.mode or (Mode.DYNAMIC if simulated else Mode.STATIC)
        node = Node(hardware, settings, mode, self.data_dir, boot)
        await node.__aenter__()
        return node


async def _listen(node: Node, news: asyncio.Queue[Event]) -> None:
    """Put all events into a queue. If no GPU supports events, try again: one that does may be added later."""
    deaf = False
    while True:
        try:
            async for event in node.cards.events():
                deaf = False
                news.put_nowait(event)
        except NotSupportedError as error:
            if not deaf:
                _log.info("no GPU of this node tells events, errors show when it is lost: %s", error)
            deaf = True
        await asyncio.sleep(_REPORT_SECONDS)
