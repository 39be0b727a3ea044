"""The driver class that the SDK calls. It also opens the node's hardware."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import ClassVar, Final

import dradriver as dra
from dradriver_fabric_cxl.configs import MemoryConfig
from dradriver_fabric_cxl.memory import NodeMemory, UsableMemory
from dradriver_fabric_cxl.names import ATTACHED, DRIVER, READY, SYSTEM_UUID
from dradriver_fabric_cxl.node.containers import prepare_accelerator, prepare_memory
from dradriver_fabric_cxl.node.devices import NodeDevices
from dradriver_fabric_cxl.node.errors import to_attach_error
from dradriver_fabric_cxl.node.factory import NodeHardware, choose_hardware
from dradriver_fabric_cxl.node.records import RecordStore
from dradriver_fabric_cxl.node.settings import VARIABLE, read_settings
from dradriver_fabric_cxl.node.status import list_unhealthy, to_health

__all__ = ["FabricCxlDriver"]

_log: Final = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 10.0
"""Interval of health reports. The kubelet drops a report after 30 seconds."""


@dataclass(frozen=True, slots=True)
class _OpenNode:
    memory: NodeMemory
    devices: NodeDevices
    system: str

    async def report(self) -> dra.NodeReport:
        """Return the state of the node, as it is now."""
        return dra.NodeReport(
            await self.memory.find_problem(),
            list_unhealthy(await self.devices.find_problems()),
            {SYSTEM_UUID: self.system} if self.system else {},
        )


class FabricCxlDriver(dra.NodeBindingDriver):
    """Node's half of the driver for CXL memory and accelerators behind a fabric.

    The pool driver of the same name attaches a device to the node's host. This driver then makes it usable: it
    makes a region of the memory, clears it, and gives it to containers as a character device or to the node as
    system RAM.

    Args:
        settings: YAML; None: the value of `$FABRIC_CXL_SETTINGS`.
        hardware: the hardware; None: that of the node, or a simulated one if that is configured.

    Raises:
        UsageError: the settings are invalid.
    """

    name = DRIVER
    configs = (MemoryConfig,)
    rescan_seconds = None
    own_conditions = (READY,)
    attach_after: ClassVar[Collection[str]] = (ATTACHED,)
    node_releases = True
    attach_timeout_seconds = 540.0  # larger than the largest `waitSeconds`; clearing takes time too

    def __init__(self, settings: str | None = None, hardware: NodeHardware | None = None) -> None:
        self._settings = read_settings(os.environ.get(VARIABLE, "") if settings is None else settings)
        self._hardware = hardware
        self._stack = AsyncExitStack()
        self._node: _OpenNode | None = None
        self._opening_lock = asyncio.Lock()
        self._changed = asyncio.Event()

    async def discover(self) -> list[dra.Pool]:
        """Return no pool: the pool driver publishes the devices."""
        await self._get_node()
        return []

    async def report(self) -> dra.NodeReport:
        """Return why the node can use no memory, the computer's UUID, and the devices that do not work."""
        return await (await self._get_node()).report()

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        """Make a device usable that the fabric has attached. Returns at once if it is usable for this claim.

        Args:
            claim: the allocated claim, whose pod waits.
            device: a device of the claim.

        Raises:
            AttachError: the device did not appear, or cannot be used.

        Source:
            KEP-5007, binding conditions.
        """
        try:
            await (await self._get_node()).devices.ensure(claim.uid, device)
        except dra.DraError as error:
            raise to_attach_error(error) from error

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Make the devices usable that `attach` has not made usable, and return what containers need.

        A claim with admin access gets nothing: another claim has the device.

        Args:
            claim: the allocated claim.

        Returns:
            The container edits and metadata of each device.
        """
        return {device: await self._prepare(claim, device) for device in claim.devices}

    async def unprepare(self, claim: dra.Claim) -> None:
        """Take back everything that the claim has on this node. Memory in use stays, and the call fails.

        Args:
            claim: the claim, which no pod on this node uses any more.
        """
        await (await self._get_node()).devices.release(claim)

    async def prepared_claims(self) -> Collection[str]:
        """Return the UIDs of the claims that have a device on this node."""
        return await (await self._get_node()).devices.list_claims()

    async def health(self) -> AsyncIterator[Iterable[dra.DeviceHealth]]:
        """Yield the health of the devices that claims have, after each change and at least every 10 seconds.

        A device that was taken back is further reported, as unknown. Without a report, the SDK would log that
        this iterator does not answer.
        """
        devices = (await self._get_node()).devices
        reported: set[tuple[str, str]] = set()
        while True:
            self._changed.clear()
            problems = await devices.find_problems()
            reported |= problems.keys()
            yield to_health(problems, reported)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REPORT_SECONDS):
                    await self._changed.wait()

    async def shutdown(self) -> None:
        """Close the hardware. Claims keep their devices."""
        await self._stack.aclose()

    async def _prepare(self, claim: dra.Claim, device: dra.AllocatedDevice) -> dra.PreparedDevice:
        if device.admin_access:
            return dra.PreparedDevice()
        found = await (await self._get_node()).devices.ensure(claim.uid, device)
        if isinstance(found, UsableMemory):
            return prepare_memory(device, found)
        return prepare_accelerator(device, found)

    async def _get_node(self) -> _OpenNode:
        """Return the opened node. The first caller opens it; if that fails, the next caller tries again."""
        async with self._opening_lock:
            if self._node is None:
                self._node = await self._open_node()
            return self._node

    async def _open_node(self) -> _OpenNode:
        hardware = self._hardware
        if hardware is None:
            hardware = await asyncio.to_thread(
                choose_hardware, self._settings, self.simulate, self.node_name, self.data_dir
            )
        memory = await self._stack.enter_async_context(NodeMemory(hardware.memory))
        records = RecordStore(self.data_dir / "devices", hardware.boot)
        devices = NodeDevices(memory, hardware.accelerators, records, self._settings)
        await devices.recover()
        node = _OpenNode(memory, devices, hardware.system)
        follower = asyncio.create_task(self._follow(node), name="changes of CXL memory")
        self._stack.push_async_callback(_cancel, follower)
        return node

    async def _follow(self, node: _OpenNode) -> None:
        """Report the health again after each change, and the node's state if it is another one.

        The first state is reported too: it may be newer than the state that the SDK has read.
        """
        last: dra.NodeReport | None = None
        try:
            async for _ in node.memory.changes():
                self._changed.set()
                try:
                    report = await node.report()
                except dra.DraError as error:
                    _log.warning("the state of the devices cannot be read: %s", error)
                    continue
                if report != last:
                    self.rediscover()
                last = report
        except Exception as error:
            self.restart(f"changes of CXL memory cannot be read any more: {error!r}")
            raise


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
