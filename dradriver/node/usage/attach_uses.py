"""Record a claim while `attach` runs for its devices of shared pools, as if it was being prepared.

The state is `preparing`: the driver has possibly changed the devices, and only `unprepare` reverts this. So
each version of the SDK understands the record, `prepare` continues with it, and a collection unprepares the
claim when its allocation is gone.

| side effect                 | if the process dies right after it                                      |
|-----------------------------|-------------------------------------------------------------------------|
| claim recorded as preparing | the next `attach` or `prepare` continues, or the claim is unprepared    |
| usage note written          | the next process reads the claim first; otherwise as above              |
| `attach` of the driver      | the driver is called again, or the claim is unprepared                  |
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import AllocatedClaim, to_allocated_claim
from dradriver.node.claims.prepare import record_claim
from dradriver.node.errors import ClaimError, StillRunningError
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.rows import Rows

__all__ = ["AttachUses"]


class _SharedLock:
    """A claim's lock that several attaches of its devices hold together.

    Attributes:
        users: the number of attaches.
        still_running: the error of an attach that cannot be stopped, so that the lock must stay held.
    """

    def __init__(self) -> None:
        self.users = 0
        self.still_running: StillRunningError | None = None
        self._entering = asyncio.Lock()
        self._held: AsyncExitStack | None = None

    async def enter(self, locks: ClaimLocks, uid: str) -> None:
        async with self._entering:
            if self._held is None:
                held = AsyncExitStack()
                await held.enter_async_context(locks.hold(uid))
                self._held = held

    async def leave(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            error = self.still_running
            await held.__aexit__(type(error) if error else None, error, None)


class AttachUses:
    """Lets `attach` use the devices of claims, and records the claims.

    Args:
        context: the parts of the node.
    """

    def __init__(self, context: ClaimContext) -> None:
        self._context = context
        self._locks: dict[str, _SharedLock] = {}

    @asynccontextmanager
    async def use(self, claim: ResourceClaim) -> AsyncIterator[None]:
        """Hold the claim's lock, and yield when the driver may use the devices of its shared pools.

        Devices of one claim hold the lock together. `prepare` and `unprepare` wait for it.

        Raises:
            AllocationEndedError: the allocation does not exist any more.
            DraError: the claim cannot be recorded or noted yet, or it is still prepared for an earlier
                allocation.
        """
        allocated = to_allocated_claim(claim, self._context.driver.name, self._context.node)
        async with self._hold(allocated.record.uid):
            await self._context.stores.state.read(lambda rows: _check_earlier(allocated, rows))
            recorded = await record_claim(self._context, allocated)
            await self._context.note_use(recorded.record, claim)
            yield

    @asynccontextmanager
    async def _hold(self, uid: str) -> AsyncIterator[None]:
        shared = self._locks.setdefault(uid, _SharedLock())
        shared.users += 1
        try:
            await shared.enter(self._context.stores.locks, uid)
            yield
        except StillRunningError as error:
            shared.still_running = error
            raise
        finally:
            shared.users -= 1
            if not shared.users:
                del self._locks[uid]
                await shared.leave()


def _check_earlier(allocated: AllocatedClaim, rows: Rows) -> None:
    """Check that the claim is not prepared for an earlier allocation: its containers may still run.

    Raises:
        ClaimError: the kubelet must unprepare the claim first.
    """
    row, wanted = rows.get(allocated.record.uid), allocated.record
    if row is None or row.state is not ClaimState.PREPARED:
        return
    if row.record.allocation != wanted.allocation or not row.record.has_time_of(wanted):
        raise ClaimError(f"claim {wanted.ref} is still prepared here for an earlier allocation")
