"""The dependencies of every operation on a claim: built once for a process, and shared."""

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
    """The storage of prepared claims: state, files and locks."""

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
        inventory: the discovered devices.
        stores: the prepared state, the claims' files and locks.
        deadline: seconds after which a call is answered even if its work continues.
        observe: called after each side effect.
        on_prepared: called with each claim that the driver has just prepared.
        look_up_pools: finds pools of this driver that are published elsewhere.
        state_complete: set while the state has every prepared claim of this node. Nothing is prepared before
            that.
        operations: the work in progress.
        acceptance: checks claims against the recorded ones.
        threads: run file operations outside transactions.
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
        """Return the author's driver."""
        return self.calls.driver

    async def until_state_complete(self, kind: str, ref: ClaimRef, seconds: float) -> float:
        """Wait until the state has every prepared claim of this node.

        A caller waits before its work begins. Rebuilding also works on claims, and must not wait for a caller
        that waits for the rebuilding.

        Args:
            kind: `prepare` or `unprepare`, for the message.
            ref: the claim, for the message.
            seconds: maximum time to wait.

        Returns:
            The remaining seconds.

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
        """Run work that blocks on the disk in a thread; a canceled caller waits for its end.

        Returns:
            The result of `work`.
        """
        loop = asyncio.get_running_loop()
        return await settled(loop.run_in_executor(self.threads, work, *arguments))

    async def drain(self, seconds: float) -> None:
        """Let work in flight end; the next process adopts work that has not ended after `seconds`."""
        await self.operations.drain(seconds)

    def close(self) -> None:
        """End the threads."""
        self.threads.shutdown(wait=False, cancel_futures=True)
