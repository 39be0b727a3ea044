"""Simulate one process of a driver on a node, without gRPC: from the start to a graceful end or a kill."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dradriver.driver import Driver
from dradriver.driver.source import Discovered
from dradriver.driver.source_locations import find_definition
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.pool import Pool
from dradriver.node.claims.context import ClaimContext, Stores
from dradriver.node.claims.metadata_updates import MetadataUpdates
from dradriver.node.claims.prepare import prepare
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.config import DRIVER_DIR
from dradriver.node.crash_points import CrashPoint, Observer
from dradriver.node.devices.inventory import DiscoveredDevices, as_pools
from dradriver.node.driver_calls import DriverCalls, describe_method
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
    """The simulated process was killed at the step that the test has chosen."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders that outlive a process: the driver's data directory and the folder of CDI specs."""

    data: Path
    cdi: Path

    @classmethod
    def under(cls, directory: Path, driver: str) -> "Paths":
        """Create the folders, in the kubelet's layout, below a folder of the test."""
        paths = cls(directory / "plugins" / driver, directory / "cdi")
        paths.data.mkdir(parents=True, exist_ok=True)
        paths.cdi.mkdir(parents=True, exist_ok=True)
        return paths

    @property
    def state(self) -> Path:
        """Return the path of the prepared state."""
        return self.data / FILE_NAME


class NodeProcess:
    """The node side of one driver, with the real state file, locks and CDI specs.

    Args:
        driver: the driver.
        node: the node's name.
        paths: folders that outlive the process.
        boot_id: ID of the boot.
        shared: pools that a `PoolDriver` of the same name publishes.
    """

    def __init__(
        self, driver: Driver, node: str, paths: Paths, boot_id: str, shared: Sequence[Pool] = ()
    ) -> None:
        self.driver = driver
        self.node = node
        self.names = CdiNames(driver.name)
        self.die_at: CrashPoint | None = None
        self._calls = DriverCalls(driver)
        self._inventory = DiscoveredDevices()
        self._inventory.set_shared(shared)
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
    async def start(
        cls,
        make: Callable[[], Driver],
        node: str,
        paths: Paths,
        boot_id: str,
        shared: Sequence[Pool] = (),
    ) -> "NodeProcess":
        """Start a process with the files of the previous process, create a driver, and discover its devices."""
        process = cls(make(), node, paths, boot_id, shared)
        await asyncio.to_thread(process.driver.data_dir.mkdir, exist_ok=True)
        await process._state.open()
        # Without an API server, a lost state cannot be rebuilt, so it is marked complete.
        await process._state.write(Rows.set_complete)
        process._claims.state_complete.set()
        await process.discover()
        return process

    async def discover(self) -> list[Pool]:
        """Call `discover()`, and check later prepares against its result."""
        discover: Callable[[], Discovered | Awaitable[Discovered]] = self.driver.discover
        discovered: Discovered = await self._calls.call(discover)
        pools = as_pools(
            discovered, self.node, describe_method(self.driver, discover), find_definition(discover)
        )
        self._inventory.set(pools)
        return pools

    async def prepare(self, claim: ResourceClaim) -> list[DeviceAnswer]:
        """Prepare the claim, as if the kubelet had requested it."""
        return await prepare(self._claims, claim)

    async def unprepare(self, ref: ClaimRef) -> None:
        """Unprepare the claim, as if the kubelet had requested it."""
        await unprepare(self._claims, ref)

    async def records(self) -> list[PreparedClaimRecord]:
        """Return every claim in the state file."""
        return await self._state.read(lambda rows: rows.all())

    async def end(self) -> None:
        """Close files and threads; the next process finds the same files as after a kill.

        The reason is that this method writes no data to disk.
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
