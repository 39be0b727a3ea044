"""What every operation on a claim works with: built once for a process, and shared by all operations."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dradriver.aio.tasks import settled
from dradriver.driver.base import Driver
from dradriver.node.claims.acceptance import Acceptance
from dradriver.node.claims.operations import Operations
from dradriver.node.crash_points import Observer, unobserved
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.shared_pools import LookUpPools, nowhere
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import InProgressError
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import ClaimRecord, ClaimRef
from dradriver.node.state.store import StateStore

__all__ = ["ClaimContext", "Stores"]

T = TypeVar("T")

_FILE_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the process keeps what is prepared."""

    state: StateStore
    files: ClaimFiles
    locks: ClaimLocks


def _ignore(record: ClaimRecord) -> None:
    """Default callback: does nothing."""


def _file_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="claim-files")


@dataclass(frozen=True, kw_only=True)
class ClaimContext:
    """The parts of a node that prepare and unprepare claims; `await drain()`, then `close()`.

    Attributes:
        calls: calls the driver.
        node: the node's name.
        inventory: what the driver has discovered.
        stores: the prepared state, the claims' files and locks.
        deadline: seconds after which a call is answered even if its work goes on.
        observe: is called after each side effect.
        on_prepared: is called with each claim that the driver has just prepared.
        look_up_pools: finds pools of this driver that are published elsewhere.
        state_complete: set while the state knows every claim that is prepared here; nothing is prepared before.
        operations: the work that is going on.
        acceptance: checks claims against those that are recorded.
        threads: run work on files that is not part of a transaction.
    """

    calls: DriverCalls
    node: str
    inventory: DiscoveredDevices
    stores: Stores
    deadline: float = 40.0
    observe: Observer = unobserved
    on_prepared: Callable[[ClaimRecord], None] = _ignore
    look_up_pools: LookUpPools = nowhere
    state_complete: asyncio.Event = field(default_factory=asyncio.Event)
    operations: Operations = field(default_factory=Operations)
    acceptance: Acceptance = field(init=False)
    threads: ThreadPoolExecutor = field(default_factory=_file_threads)

    def __post_init__(self) -> None:
        object.__setattr__(self, "acceptance", Acceptance(self.driver.name, self.inventory))

    @property
    def driver(self) -> Driver:
        """The author's driver."""
        return self.calls.driver

    async def until_state_complete(self, kind: str, ref: ClaimRef, seconds: float) -> float:
        """Waits until the state knows every claim that is prepared here.

        A caller waits before its work begins. Rebuilding works on claims too, and must not wait for a caller
        that waits for the rebuilding.

        Args:
            kind: `prepare` or `unprepare`, for the message.
            ref: the claim, for the message.
            seconds: how long to wait.

        Returns:
            The seconds that are left.

        Raises:
            InProgressError: the state is still not complete; call again.
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
                f"{kind} of claim {ref} has to wait: rebuilding the prepared state, waiting for the API server "
                "or for the driver's prepared_claims()"
            ) from None
        return until - clock()

    async def in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs work that blocks on the disk; a caller that is cancelled waits for its end.

        Returns:
            What `work` returns.
        """
        loop = asyncio.get_running_loop()
        return await settled(loop.run_in_executor(self.threads, work, *arguments))

    async def drain(self, seconds: float) -> None:
        """Lets work in flight end. The next process adopts what has not ended after `seconds`."""
        await self.operations.drain(seconds)

    def close(self) -> None:
        """Ends the threads."""
        self.threads.shutdown(wait=False, cancel_futures=True)
