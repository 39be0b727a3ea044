"""A simulated fabric with the interface of a real one."""

import asyncio
from collections.abc import AsyncGenerator

from dradriver_fabric_cxl.fabric.executor import AttachmentExecutor
from dradriver_fabric_cxl.fabric.hardware import Fabric
from dradriver_fabric_cxl.fabric.pace import FabricPace
from dradriver_fabric_cxl.fabric.simulator.faults import FabricCall, FabricFault, PlannedFault, make_fault_error
from dradriver_fabric_cxl.fabric.simulator.objects import FabricHook, SimulatedObjects
from dradriver_fabric_cxl.fabric.simulator.rules import make_inventory
from dradriver_fabric_cxl.fabric.simulator.state import FabricMemoryStore, FabricStore, take_fault
from dradriver_fabric_cxl.fabric.steps import list_attachments
from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricAttachment, FabricHealth, FabricInventory

__all__ = ["SimulatedFabric"]


def _inject_nothing(_call: str, _moment: str) -> None:
    """Default hook: does nothing."""


class SimulatedFabric(Fabric):
    """A fabric with two memory domains, four hosts and one accelerator. See `Fabric`.

    Args:
        store: the state; None: in memory.
        hook: called around each change, on a thread; it can raise, or end the process.
        pace: time limits.
        task_looks: number of looks after which a task ends; 0: requests are executed at once.
    """

    def __init__(
        self,
        store: FabricStore | None = None,
        *,
        hook: FabricHook = _inject_nothing,
        pace: FabricPace | None = None,
        task_looks: int = 1,
    ) -> None:
        self._store = store or FabricMemoryStore()
        self._pace = pace or FabricPace()
        self._objects = SimulatedObjects(self._store, hook, task_looks)
        self._executor = AttachmentExecutor(self._objects, self._pace)

    async def inventory(self) -> FabricInventory:
        """See `Fabric`."""
        return await asyncio.to_thread(self._inventory)

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        """See `Fabric`."""
        return await self._executor.attach(request)

    async def detach(self, tag: str) -> None:
        """See `Fabric`."""
        await self._executor.detach(tag)

    async def attachments(self) -> tuple[FabricAttachment, ...]:
        """See `Fabric`."""
        return list_attachments(await self._objects.read(None))

    async def changes(self) -> AsyncGenerator[None, None]:
        """See `Fabric`."""
        seen = None
        while True:
            revision = await asyncio.to_thread(self._revision)
            if revision != seen:
                seen = revision
                yield
            else:
                await self._pace.sleep(self._pace.poll)

    # Changes of the hardware, for tests and demonstrations.

    def fail(self, call: FabricCall, fault: FabricFault, times: int = 1) -> None:
        """Make the next calls of a kind fail, of any process.

        Args:
            call: the call.
            fault: the failure.
            times: number of calls.
        """
        with self._store.change() as state:
            state.faults.append(PlannedFault(call, fault, times))

    def set_health(self, domain: str, health: FabricHealth) -> None:
        """Set the health of a memory domain.

        Args:
            domain: ID of the domain.
            health: the new health.
        """
        with self._store.change() as state:
            for each in state.domains:
                if each.id == domain:
                    each.health = health
            state.revision += 1

    def _inventory(self) -> FabricInventory:
        with self._store.change() as state:
            fault = take_fault(state, FabricCall.READ)
            inventory = make_inventory(state)
        if error := make_fault_error(fault, FabricCall.READ):
            raise error
        return inventory

    def _revision(self) -> int:
        with self._store.change() as state:
            return state.revision
