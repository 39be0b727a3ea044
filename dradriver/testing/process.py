"""One life of a driver's process on a node, without gRPC: from start to a graceful end or a kill."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from dradriver.driver import Driver
from dradriver.driver.code_places import defined_at
from dradriver.driver.source import Discovered
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.pool import Pool
from dradriver.node.claims.context import ClaimContext, Stores
from dradriver.node.claims.metadata_updates import MetadataUpdates
from dradriver.node.claims.prepare import prepare
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.config import DRIVER_DIR
from dradriver.node.crash_points import CrashPoint, Observer
from dradriver.node.devices.inventory import DiscoveredDevices, as_pools
from dradriver.node.driver_calls import DriverCalls, subject_of
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver.node.files.cdi import CdiDirectory, CdiNames
from dradriver.node.files.claim_files import ClaimFiles, DeviceAnswer
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.state.database import FILE_NAME
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import ClaimRef, PreparedClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore

__all__ = ["NodeProcess", "Paths", "ProcessDiedError"]


class ProcessDiedError(Exception):
    """The process was killed at the step that the test chose; only disk and hardware keep its work."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders that outlive the process: its data directory and the folder of CDI specs."""

    data: Path
    cdi: Path

    @classmethod
    def under(cls, directory: Path, driver: str) -> "Paths":
        """Create the kubelet's layout below a folder of the test."""
        paths = cls(directory / "plugins" / driver, directory / "cdi")
        paths.data.mkdir(parents=True, exist_ok=True)
        paths.cdi.mkdir(parents=True, exist_ok=True)
        return paths

    @property
    def state(self) -> Path:
        """Return the path of the prepared state."""
        return self.data / FILE_NAME


class NodeProcess:
    """The node side of one driver, with the real state file, the real locks and real CDI specs."""

    def __init__(self, driver: Driver, node: str, paths: Paths, boot_id: str) -> None:
        self.driver = driver
        self.node = node
        self.names = CdiNames(driver.name)
        self.die_at: CrashPoint | None = None
        self._calls = DriverCalls(driver)
        self._inventory = DiscoveredDevices()
        self._cdi = CdiDirectory(paths.cdi, self.names)
        observe: Observer = self._observe
        self._state = StateStore(paths.state, boot_id)
        self._locks = ClaimLocks(paths.data / "claims.lock")
        files = ClaimFiles(self._cdi, MetadataDirectory(paths.data / "metadata", driver.name), observe)
        stores = Stores(self._state, files, self._locks)
        self._claims = ClaimContext(
            calls=self._calls, node=node, inventory=self._inventory, stores=stores, observe=observe
        )
        requests = ContextRequests(update_metadata=MetadataUpdates(driver.name, stores).update)
        driver.set_context(ProcessContext(requests, node, paths.data / DRIVER_DIR))

    @classmethod
    async def start(cls, make: Callable[[], Driver], node: str, paths: Paths, boot_id: str) -> "NodeProcess":
        """Start a new process on the state of the previous one; its new driver has discovered its devices."""
        process = cls(make(), node, paths, boot_id)
        await asyncio.to_thread(process.driver.data_dir.mkdir, exist_ok=True)
        await process._state.open()
        # The test has no API server, so a lost state cannot be rebuilt.
        await process._state.write(Rows.set_complete)
        process._claims.state_complete.set()
        await process.discover()
        return process

    async def discover(self) -> list[Pool]:
        """Call `discover()`; later prepares are checked against its result."""
        discover: Callable[[], Discovered | Awaitable[Discovered]] = self.driver.discover
        found: Discovered = await self._calls.call(discover)
        pools = as_pools(found, self.node, subject_of(self.driver, discover), defined_at(discover))
        self._inventory.set(pools)
        return pools

    async def prepare(self, claim: ResourceClaim) -> list[DeviceAnswer]:
        """Prepare the claim, as for a request of the kubelet."""
        return await prepare(self._claims, claim)

    async def unprepare(self, ref: ClaimRef) -> None:
        """Unprepare the claim, as for a request of the kubelet."""
        await unprepare(self._claims, ref)

    async def records(self) -> list[PreparedClaimRecord]:
        """Return every claim in the state file."""
        return await self._state.read(lambda rows: rows.all())

    async def end(self) -> None:
        """Close files and threads; for the next process this is the same as a kill.

        Everything durable was written before.
        """
        await self._claims.drain(0)
        self._claims.close()
        await self._state.close()
        self._locks.close()
        self._calls.close()

    async def stop(self) -> None:
        """End gracefully: call the driver's `shutdown()` first."""
        await self._calls.call(self.driver.shutdown)
        await self.end()

    def _observe(self, step: CrashPoint, _uid: str) -> None:
        if step is self.die_at:
            raise ProcessDiedError(step)
