"""A simulated fabric whose connections plug memory and accelerators into simulated nodes."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from dradriver_fabric_cxl.accelerator.simulator import AcceleratorFileStore, SimulatedAccelerators
from dradriver_fabric_cxl.fabric import (
    AttachRequest,
    Fabric,
    FabricAttachment,
    FabricInventory,
    FabricPace,
)
from dradriver_fabric_cxl.fabric.simulator import SimulatedFabric
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory
from dradriver_fabric_cxl.simulation import accelerator_file, memory_file, open_fabric_store

__all__ = ["SimulatedFabricOfNodes"]


class SimulatedFabricOfNodes(Fabric):
    """A simulated fabric, and the slots of the computers at its hosts. See `Fabric`.

    After each change, the devices of every simulated node become those that the fabric has connected. If the
    process dies between the two, the next call does it.

    Args:
        folder: folder of the simulation.
        pace: time limits.
    """

    def __init__(self, folder: Path, *, pace: FabricPace) -> None:
        self._folder = folder
        self._fabric = SimulatedFabric(open_fabric_store(folder), pace=pace)
        self._plugging = asyncio.Lock()

    async def inventory(self) -> FabricInventory:
        """See `Fabric`."""
        return await self._fabric.inventory()

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        """See `Fabric`."""
        attachment = await self._fabric.attach(request)
        await self._plug()
        return attachment

    async def detach(self, tag: str) -> None:
        """See `Fabric`."""
        await self._fabric.detach(tag)
        await self._plug()

    async def attachments(self) -> tuple[FabricAttachment, ...]:
        """See `Fabric`."""
        return await self._fabric.attachments()

    def changes(self) -> AsyncGenerator[None, None]:
        """See `Fabric`."""
        return self._fabric.changes()

    async def _plug(self) -> None:
        # One after the other, so that an older list of attachments never replaces a newer one.
        async with self._plugging:
            hosts, attachments = (await self._fabric.inventory()).hosts, await self._fabric.attachments()
            await asyncio.to_thread(self._plug_all, [each.id for each in hosts], attachments)

    def _plug_all(self, hosts: Iterable[str], attachments: Iterable[FabricAttachment]) -> None:
        connected = [
            (each.host, each.serial, each.mebibytes)
            for each in attachments
            if each.connected and each.serial is not None
        ]
        for host in hosts:
            chunks = {
                serial: mebibytes for where, serial, mebibytes in connected if where == host and mebibytes
            }
            memory = SimulatedMemory(MemoryFileStore(memory_file(self._folder, host)))
            for device in memory.devices():
                if device.serial not in chunks:
                    memory.unplug(device.serial)
            for serial, mebibytes in chunks.items():
                memory.plug(serial, mebibytes << 20)
            cards = {serial for where, serial, mebibytes in connected if where == host and not mebibytes}
            accelerators = SimulatedAccelerators(AcceleratorFileStore(accelerator_file(self._folder, host)))
            for accelerator in accelerators.devices():
                if accelerator.serial not in cards:
                    accelerators.unplug(accelerator.serial)
            for serial in cards:
                accelerators.plug(serial)
