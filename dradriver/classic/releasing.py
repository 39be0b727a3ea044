"""Release claims: clear the allocation, call `deallocate`, delete the record, and remove the finalizer.

In KEP-3063 the driver deallocates before the allocation is cleared. Today's API server does not know
`status.deallocationRequested`, so a pod could reserve the claim while the driver releases it. Therefore the
allocation is cleared first. This write fails if the claim has changed, and after it no pod can use the claim.

| the process dies after | the next process finds | and continues with |
|---|---|---|
| the allocation is cleared, or the annotation set | no allocation, finalizer and record | `deallocate` |
| `deallocate` | the same | `deallocate`, once more |
| the record is deleted | an unallocated claim with finalizer | `deallocate`, once more |
| the finalizer is removed | nothing | nothing |

A claim that is gone is released by its record.

If others allocate a claim while this process works on it, the claim keeps their allocation, and the driver
deallocates its own. Claim and record look as if the controller had allocated the claim, so the record is
marked first and deleted last.

| the process dies after | the next process finds | and continues with |
|---|---|---|
| others have allocated the claim | an allocated claim with a record | nothing: it releases it at its end |
| the record is marked | a marked record of an allocated claim | `deallocate` |
| `deallocate` | the same | `deallocate`, once more |
| the finalizer is removed | the same, without finalizer | `deallocate`, once more |
| the record is deleted | nothing | nothing |

A process may have lost the answer of its write of an allocation, or died before it. So before `deallocate`, a
claim that this process has not cleared gets an annotation: after this write, no earlier one can allocate it.

A process with another Lease may have begun to allocate the claim, with a record that this process does not know
yet. So if no record is known, it is read three times:

| the record exists first | result |
|---|---|
| before the annotation is written (usual) | nothing is changed, and the other process continues |
| after it | nothing is deallocated. The annotation stays, and the other process tries again |
| before the finalizer and the annotation are removed | they stay, and the other process tries again |
| later | the other process allocates after this `deallocate` |

With `node_releases`, `deallocate` waits until the node has released the claim. The node writes its usage note
before it reads the claim, and this process reads the note after it has seen that the allocation is gone, so at
least one of the two sees the other (`node.usage`).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeAlias

from dradriver.classic.reports import ControllerReports
from dradriver.classic.state import ControllerState
from dradriver.classic.steps.claim_steps import ClaimStep, next_claim_step
from dradriver.classic.writes import ClaimWrites
from dradriver.driver import ControllerDriver, RecordedClaim
from dradriver.errors import DraError
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.driver_calls import Calls

__all__ = ["FindUse", "Releaser"]

_log = logging.getLogger(__name__)

FindUse: TypeAlias = Callable[[RecordedClaim], Awaitable[str]]
"""Returns why a node has not released a claim; empty if all nodes have."""


class Releaser:
    """Releases the claims of a driver.

    Args:
        driver: the author's driver.
        state: the state of the process.
        writes: writes claims and records.
        calls: calls the driver.
        reports: receives failures.
        find_use: returns why nodes have not released a claim. None: nodes are not asked.

    Attributes:
        pause_seconds: interval between two checks of a claim that a node has not released.
        report_seconds: seconds after which such a claim is reported, and its other work goes on.
    """

    pause_seconds: ClassVar[float] = 0.5
    report_seconds: ClassVar[float] = 30.0

    def __init__(
        self,
        driver: ControllerDriver,
        state: ControllerState,
        writes: ClaimWrites,
        calls: Calls,
        reports: ControllerReports,
        find_use: FindUse | None = None,
    ) -> None:
        self._find_use = find_use
        self._driver = driver
        self._state = state
        self._writes = writes
        self._calls = calls
        self._reports = reports

    async def release(self, uid: str) -> None:
        """Release a claim if it must be released; the caller holds its lock.

        The claim is read from the API server before, because its allocation may be newer than the cache.

        Raises:
            DraError: the driver failed, or the API server did. The caller must try again.
        """
        view = self._state.view(uid)
        if next_claim_step(view) is not ClaimStep.RELEASE:
            return
        if view.claim is not None:
            await self._writes.read(view.claim)
        elif view.record is not None:
            meta, spec = view.record.metadata, view.record.spec
            await self._writes.read_uid(meta.namespace, spec.claim_name, uid)
        while next_claim_step(view := self._state.view(uid)) is ClaimStep.RELEASE:
            if await self._has_new_record(view.claim, view.record):
                continue
            if view.claim is not None and not await self._writes.settle(view.claim):
                continue
            claim = self._state.claim(uid)
            if await self._has_new_record(claim, view.record):
                continue
            await self.deallocate(_describe(uid, claim, view.record))
            if not await self._has_new_record(claim, view.record):
                await self._finish(claim, view.record)
            self._state.settled.discard(uid)
            return

    async def withdraw(self, uid: str) -> None:
        """Release what the driver holds for a claim that others have allocated; the caller holds its lock.

        The claim keeps the allocation of the others.

        Raises:
            DraError: the driver failed, or the API server did. The caller must try again.
        """
        view = self._state.view(uid)
        claim, record = view.claim, view.record
        if claim is None or next_claim_step(view) is not ClaimStep.WITHDRAW:
            return
        if await self._has_new_record(claim, record):
            self._state.withdrawn.discard(uid)
            return
        self._state.withdrawn.add(uid)
        if record is not None and not record.is_withdrawn:
            await self._writes.record_withdrawal(claim)
        await self.deallocate(_describe(uid, claim, record))
        await self._writes.remove_finalizer(claim, allocated=True)
        if record is not None:
            await self._writes.delete_record(record)
        self._state.withdrawn.discard(uid)

    async def deallocate(self, claim: RecordedClaim) -> None:
        """Call `deallocate`; the caller holds the lock of the claim.

        Raises:
            DraError: the driver failed, or a node has not released the claim. It was reported.
        """
        self._state.attempts.pop(claim.uid, None)
        if self._find_use is not None:
            await self._wait_released(claim, self._find_use)
        try:
            with self._reports.metrics.observe("deallocate"):
                await self._calls.call(self._driver.deallocate, claim, about=f" of claim {claim}")
        except DraError as error:
            self._reports.report("deallocate", claim.namespace, claim.name, claim.uid, str(error))
            raise
        self._reports.metrics.count_deallocated()
        self._state.changes += 1
        _log.info("released claim %s", claim)

    async def _wait_released(self, claim: RecordedClaim, find_use: FindUse) -> None:
        """Wait until no node uses the claim. It is reported, and tried again, if that takes long."""
        until = time.monotonic() + self.report_seconds
        while problem := await find_use(claim):
            if time.monotonic() >= until:
                message = f"the claim is not released: {problem}"
                self._reports.report("release", claim.namespace, claim.name, claim.uid, message)
                raise DraError(f"claim {claim}: {message}")
            await asyncio.sleep(self.pause_seconds)

    async def _has_new_record(self, claim: ResourceClaim | None, record: ControllerAllocation | None) -> bool:
        """Return whether a claim without a known record has one, which is then in the cache.

        It is of a process with another Lease: the attempt of that process is not this one's to release. If the
        record was created after `settle`, the annotation of the claim ends the attempt.
        """
        return record is None and claim is not None and await self._writes.read_record(claim)

    async def _finish(self, claim: ResourceClaim | None, record: ControllerAllocation | None) -> None:
        if record is not None:
            await self._writes.delete_record(record)
        if claim is not None:
            await self._writes.remove_finalizer(claim)
            current = self._state.claim(claim.metadata.uid)
            if current is not None and current.allocation is not None:  # of others, after `settle`
                self._state.withdrawn.add(claim.metadata.uid)


def _describe(uid: str, claim: ResourceClaim | None, record: ControllerAllocation | None) -> RecordedClaim:
    node = record.node if record is not None else ""
    if claim is not None:
        return RecordedClaim(uid, claim.metadata.namespace, claim.metadata.name, node)
    if record is not None:
        return RecordedClaim(uid, record.metadata.namespace, record.spec.claim_name, node)
    return RecordedClaim(uid)
