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
    Event,
    GpuError,
    GpuHardware,
    LibraryNotFoundError,
    NotSupportedError,
    VersionMismatchError,
)
from dradriver_gpu_mig.card.simulator import GpuFileStore, SimulatedGpus
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, VfioDeviceConfig
from dradriver_gpu_mig.containers import Containers, SimulatedContainers
from dradriver_gpu_mig.instances import RecordState
from dradriver_gpu_mig.mps import MpsHost, NodeMpsHost, SimulatedMpsHost
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import DRIVER, select_non_overlapping
from dradriver_gpu_mig.passthrough import PciBus
from dradriver_gpu_mig.prepare import ClaimPreparer
from dradriver_gpu_mig.settings import VARIABLE, GpuSettings, Mode, MpsSettings, read_settings

__all__ = ["GpuDriver"]

_log: Final = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 10.0
"""Interval of health reports. The kubelet drops a report after 30 seconds."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class GpuDriver(dra.Driver):
    """DRA driver for NVIDIA's GPUs, whole and as MIG devices.

    Args:
        settings: YAML; None: the value of `$GPU_MIG_SETTINGS`.
        hardware: the cards; None: the simulator if it is configured or no NVIDIA driver is installed, else
            NVML.
        pci: the PCI functions; None: those of the node.
        mps_host: starts MPS control daemons; None: on the node, or simulated with simulated or given cards.

    Raises:
        UsageError: the settings are invalid.
    """

    name = DRIVER
    configs = (GpuConfig, MigDeviceConfig, VfioDeviceConfig)
    rescan_seconds = 30.0

    def __init__(
        self,
        settings: str | None = None,
        hardware: GpuHardware | None = None,
        pci: PciBus | None = None,
        mps_host: MpsHost | None = None,
    ) -> None:
        self._settings_text = os.environ.get(VARIABLE, "") if settings is None else settings
        read_settings(self._settings_text, "")  # reports invalid settings before anything starts
        self._hardware = hardware
        self._pci = pci
        self._mps_host = mps_host
        self._node: GpuNode | None = None
        self._containers: Containers = SimulatedContainers()
        self._opening_lock = asyncio.Lock()
        self._last_pool: dra.Pool | None = None

    async def discover(self) -> list[dra.Pool]:
        """Return the pool of devices that the cards offer now, with taints for their errors.

        If NVIDIA's driver was replaced, the SDK restarts the process.
        """
        try:
            self._last_pool = await (await self._get_node()).discover()
        except VersionMismatchError as error:
            self.restart(f"NVIDIA's driver was replaced: {error}")
            raise
        return [self._last_pool]

    async def fallback(self, dropped: Collection[str]) -> list[dra.Pool] | None:
        """Return the last pool in a layout that does not need the fields that the API server drops.

        If the API server drops counters, no two devices of the layout overlap.

        Args:
            dropped: names of the fields that the API server drops.
        """
        if self._last_pool is None:
            return None
        allocated = {
            record.device for record in await asyncio.to_thread((await self._get_node()).record_store.all)
        }
        return [
            select_non_overlapping(
                self._last_pool, allocated, groups_only=set(dropped) == {"compatibilityGroups"}
            )
        ]

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Create instances, switch MIG on or off, and apply the settings that the claim requests.

        Args:
            claim: the allocated claim.

        Returns:
            The container edits and metadata of each device.
        """
        return await (await self._get_preparer()).prepare(claim)

    async def unprepare(self, claim: dra.Claim) -> None:
        """Revert everything that `prepare` did for the claim.

        Args:
            claim: the claim, which no pod on this node uses any more.
        """
        await (await self._get_preparer()).unprepare(claim)

    async def prepared_claims(self) -> Collection[str]:
        """Return the UIDs of claims that have devices or an MPS control daemon."""
        node = await self._get_node()
        records = await asyncio.to_thread(node.record_store.all)
        present = (record for record in records if record.state is not RecordState.DESTROYING)
        return {claim for record in present for claim in record.claims} | await asyncio.to_thread(
            node.mps.claims
        )

    async def health(self) -> AsyncIterator[Iterable[dra.DeviceHealth]]:
        """Yield the health of every device after each event of the cards, and at least every 10 seconds."""
        node = await self._wait_for_node()
        events: asyncio.Queue[Event] = asyncio.Queue()
        listener = asyncio.create_task(_queue_events(node, events), name="events of the GPUs")
        try:
            while True:
                yield node.report_health()
                if listener.done():
                    listener.result()  # the task ends only with an error; the SDK calls health() again
                with suppress(TimeoutError):
                    event = await asyncio.wait_for(events.get(), _REPORT_SECONDS)
                    if await node.handle_event(event):
                        self.rediscover()
                        continue
                if node.has_unconfirmed_loss:
                    self.rediscover()
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def shutdown(self) -> None:
        """Close the cards. The MIG instances stay."""
        if self._node is not None:
            await self._node.__aexit__(None, None, None)

    async def _wait_for_node(self) -> GpuNode:
        """Wait until the cards can be opened, and return the node.

        Until then, `discover` reports why the cards cannot be opened.
        """
        while True:
            try:
                return await self._get_node()
            except GpuError:
                await asyncio.sleep(_REPORT_SECONDS)

    async def _get_preparer(self) -> ClaimPreparer:
        return ClaimPreparer(await self._get_node(), self._containers, self.warn)

    async def _get_node(self) -> GpuNode:
        """Return the node. The first caller opens it; if the opening fails, the next caller tries again."""
        async with self._opening_lock:
            if self._node is None:
                settings = read_settings(self._settings_text, self.node_name)
                boot = await asyncio.to_thread(_BOOT_ID.read_text)
                self._node = await self._open_node(settings, boot.strip())
            return self._node

    async def _open_node(self, settings: GpuSettings, boot: str) -> GpuNode:
        if self._hardware is not None or self.simulate == "always":
            return await self._start_node(self._hardware or self._make_simulator(settings), settings, boot)
        try:
            # Imported here because a simulator or a check needs neither NVML's binding nor the code that reads
            # the node's files.
            from dradriver_gpu_mig.factory import make_real_gpus  # noqa: PLC0415

            hardware, self._containers = await asyncio.to_thread(make_real_gpus, settings.host, self.data_dir)
            return await self._start_node(hardware, settings, boot)
        except LibraryNotFoundError:
            if self.simulate == "never":
                raise
        self._containers = SimulatedContainers()
        return await self._start_node(self._make_simulator(settings), settings, boot)

    def _make_simulator(self, settings: GpuSettings) -> SimulatedGpus:
        models = settings.simulator.models
        reason = "simulate is always" if self.simulate == "always" else "libnvidia-ml.so.1 is not found"
        _log.warning("simulating %s: %s", ", ".join(models), reason)
        store = GpuFileStore(self.data_dir / "simulated-cards.json")
        return SimulatedGpus(models, store=store, node=self.node_name, mig=settings.simulator.mig)

    async def _start_node(self, hardware: GpuHardware, settings: GpuSettings, boot: str) -> GpuNode:
        simulated = isinstance(hardware, SimulatedGpus)
        mode = settings.mode or (Mode.DYNAMIC if simulated else Mode.STATIC)
        pci = self._pci or PciBus(Path(settings.host.sysfs))
        closes = settings.close_when_idle and mode is not Mode.DYNAMIC and self._hardware is None
        kernel_log = Path(settings.host.dev) / "kmsg" if closes and not simulated else None
        mps_host = self._make_mps_host(settings, simulated=simulated or self._hardware is not None)
        node = GpuNode(hardware, settings, mode, self.data_dir, boot, pci, mps_host, kernel_log)
        await node.__aenter__()
        return node

    def _make_mps_host(self, settings: GpuSettings, *, simulated: bool) -> MpsHost:
        folder, mps = self.data_dir / "mps", settings.mps or MpsSettings()
        if self._mps_host is not None:
            return self._mps_host
        if simulated:
            return SimulatedMpsHost(folder)
        return NodeMpsHost(
            folder,
            driver_root_on_host=Path(settings.host.driver_root_on_host),
            proc=Path(settings.host.proc),
            settings=mps,
        )


async def _queue_events(node: GpuNode, events: asyncio.Queue[Event]) -> None:
    """Put all events into a queue. If no GPU supports events, try again: such a GPU may be added later."""
    is_unsupported_logged = False
    while True:
        try:
            async for event in node.events():
                is_unsupported_logged = False
                events.put_nowait(event)
        except (NotSupportedError, OSError) as error:
            if not is_unsupported_logged:
                _log.info(
                    "no events of the GPUs are received, so each error is noticed by a scan: %s",
                    error,
                )
            is_unsupported_logged = True
        await asyncio.sleep(_REPORT_SECONDS)
