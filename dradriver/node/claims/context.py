"""The dependencies that all operations on claims share; a process builds them once."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from dradriver.aio.tasks import await_thread
from dradriver.driver.base import Driver
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.acceptance import Acceptance
from dradriver.node.claims.operations import Operations
from dradriver.node.crash_points import Observer, observe_nothing
from dradriver.node.devices.attachment_wait import ClaimChanges
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.shared_pools import LookUpPools, look_up_nothing
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import InProgressError
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import ClaimRecord, ClaimRef
from dradriver.node.state.store import StateStore

__all__ = ["ClaimContext", "Stores", "note_nothing"]

T = TypeVar("T")


async def note_nothing(_record: ClaimRecord, _seen: ResourceClaim) -> None:
    """Do nothing: the driver has no usage note."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The storage of prepared claims: state, files and locks."""

    state: StateStore
    files: ClaimFiles
    locks: ClaimLocks


@dataclass(frozen=True, kw_only=True)
class ClaimContext:
    """The objects with which claims are prepared and unprepared; call `await drain()` and `close()` at the end.

    Attributes:
        calls: calls the driver.
        node: the node's name.
        inventory: the discovered devices.
        stores: the prepared state, the claims' files and locks.
        deadline: seconds after which a call is answered even if its work continues.
        observe: called after each side effect on a claim.
        on_prepared: called with each claim that the driver has just prepared.
        note_use: called with the record of a claim, and with the claim that was recorded, before the driver is
            called for it. It returns when the node's usage note lists the claim's devices of shared pools, and
            the allocation still stands.
        look_up_pools: finds those of this driver's pools that the control plane publishes.
        changes: waits for changes of claims whose devices are not attached yet. None, for tests without an API
            server: the prepare of such a claim is answered immediately.
        state_complete: set while the state has every prepared claim of this node. While it is not set, no claim
            is prepared.
        operations: the work in progress.
        acceptance: checks a claim against the recorded claims.
        threads: run file operations outside transactions.
    """

    calls: DriverCalls
    node: str
    inventory: DiscoveredDevices
    stores: Stores
    deadline: float = 40.0
    observe: Observer = observe_nothing
    on_prepared: Callable[[ClaimRecord], None] = lambda _: None
    note_use: Callable[[ClaimRecord, ResourceClaim], Awaitable[None]] = note_nothing
    look_up_pools: LookUpPools = look_up_nothing
    changes: ClaimChanges | None = None
    state_complete: asyncio.Event = field(default_factory=asyncio.Event)
    operations: Operations = field(default_factory=Operations)
    acceptance: Acceptance = field(init=False)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "claim-files"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "acceptance", Acceptance(self.driver.name, self.inventory))

    @property
    def driver(self) -> Driver:
        """Return the author's driver."""
        return self.calls.driver

    async def wait_for_complete_state(self, kind: str, ref: ClaimRef, seconds: float) -> float:
        """Wait until the state has every prepared claim of this node.

        A caller must call this before its operation begins, because the rebuild also runs operations on claims.
        If an operation waited for the rebuild, and the rebuild waited for that operation, both would wait
        forever.

        Args:
            kind: `prepare` or `unprepare`, for the message.
            ref: the claim, for the message.
            seconds: maximum time to wait.

        Returns:
            The remaining seconds.

        Raises:
            InProgressError: the state is still not complete. The caller must retry.
        """
        if self.state_complete.is_set():
            return seconds
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        try:
            async with asyncio.timeout(seconds):
                await self.state_complete.wait()
        except TimeoutError:
            raise InProgressError(
                f"{kind} of claim {ref} waits: the prepared state is being rebuilt, which needs the API server "
                "and the driver's prepared_claims()"
            ) from None
        return until - clock()

    async def run_in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run `work` in a thread; even a canceled caller waits until `work` has ended.

        `work` may block on the disk.

        Returns:
            The result of `work`.
        """
        loop = asyncio.get_running_loop()
        return await await_thread(loop.run_in_executor(self.threads, work, *arguments))

    async def drain(self, seconds: float) -> None:
        """Let operations in progress end, and cancel them after `seconds`; the next process continues them."""
        await self.operations.drain(seconds)

    def close(self) -> None:
        """End the threads."""
        self.threads.shutdown(wait=False, cancel_futures=True)
