"""Allocate claims: all pending claims of one pod together, or one immediate claim.

| the process dies after | the next process finds | and continues with |
|---|---|---|
| the finalizer is added | an unallocated claim with finalizer | `deallocate`, then a new attempt |
| the record is created | an unallocated claim with finalizer and record | `deallocate`, then a new attempt |
| `allocate` | the same | `deallocate`, then a new attempt |
| the node of an immediate claim is added to the record | the same | `deallocate`, then a new attempt |
| the allocation is written | an allocated and reserved claim | nothing |

After an error within one process, the attempt goes on as long as it is wanted: `allocate` is called again. If
another node is selected meanwhile, the claim is released before the next attempt.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

from dradriver.classic.parameters import ClaimParameters
from dradriver.classic.releasing import Releaser
from dradriver.classic.reports import ControllerReports
from dradriver.classic.results import build_allocation, check_allocated
from dradriver.classic.state import Attempt, ControllerState
from dradriver.classic.writes import ClaimChangedError, ClaimWrites
from dradriver.driver import AllocationError, ControllerAllocationResult, ControllerDriver, PendingClaim
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.errors import DraError, DriverError, InvalidObjectError
from dradriver.kube import ApiError
from dradriver.model.classic.controlled_claims import ControlledClaim
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ConsumerReference
from dradriver.node.driver_calls import Calls

__all__ = ["Allocator"]

_log = logging.getLogger(__name__)


class Allocator:
    """Allocates the claims of a driver.

    Args:
        driver: the author's driver.
        state: the state of the process.
        writes: writes claims and records.
        releaser: releases claims.
        parameters: reads the parameters of claims.
        calls: calls the driver.
        reports: receives failures.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        state: ControllerState,
        writes: ClaimWrites,
        releaser: Releaser,
        parameters: ClaimParameters,
        calls: Calls,
        reports: ControllerReports,
    ) -> None:
        self._driver = driver
        self._state = state
        self._writes = writes
        self._releaser = releaser
        self._parameters = parameters
        self._calls = calls
        self._reports = reports

    async def allocate(
        self, claims: Mapping[str, ControlledClaim], node: str | None, pod: Pod | None = None
    ) -> None:
        """Allocate claims; each that succeeds is written, whatever becomes of the others.

        Args:
            claims: the claims, by name in the pod; by an empty name for an immediate claim.
            node: the selected node; None for an immediate claim.
            pod: the pod that waits for the claims.

        Raises:
            DraError: a claim was not allocated. It was reported; the caller must try again.
        """
        uids = sorted(each.claim.metadata.uid for each in claims.values())
        async with AsyncExitStack() as stack:
            for uid in uids:  # in this order, so that two pods with common claims do not block each other
                await stack.enter_async_context(self._state.locks.hold(uid))
            begun = await self._begin(claims, Attempt(node or "", pod.ref if pod is not None else ""))
            if begun:
                await self._carry_out(begun, node, pod)

    async def _begin(
        self, claims: Mapping[str, ControlledClaim], attempt: Attempt
    ) -> list[tuple[ControlledClaim, PendingClaim]]:
        """Return the claims that can be allocated, with finalizer and record.

        A claim that has changed is left out: its changes decide what follows.
        """
        begun = []
        read = [(controlled, await self._read(controlled, name)) for name, controlled in claims.items()]
        for controlled, pending in read:
            uid = pending.uid
            try:
                earlier = self._state.attempts.get(uid)
                is_same = earlier is not None and earlier.node == attempt.node
                if not is_same:
                    await self._release_earlier(uid)
                self._state.settled.discard(uid)
                self._state.withdrawn.discard(uid)
                is_written = earlier is not None and is_same and earlier.is_written
                self._state.attempts[uid] = replace(attempt, is_written=is_written)
                stored = await self._writes.add_finalizer(self._state.claim(uid) or controlled.claim)
                await self._writes.create_record(stored, attempt.node)
            except ClaimChangedError as error:
                self._end_overtaken(uid)
                _log.info("%s", error)
                continue
            except ApiError as error:
                self._report([controlled], error)
                raise
            begun.append((replace(controlled, claim=stored), pending))
        return begun

    def _end_overtaken(self, uid: str) -> None:
        """End an attempt whose claim has changed. If others have allocated the claim, it is withdrawn next."""
        attempt = self._state.attempts.pop(uid, None)
        claim = self._state.claim(uid)
        if attempt is None or attempt.is_written or claim is None or claim.allocation is None:
            return
        if self._state.has_task(uid) and not self._state.view(uid).has_rival:
            self._state.withdrawn.add(uid)

    async def _release_earlier(self, uid: str) -> None:
        self._state.attempts.pop(uid, None)
        await self._releaser.release(uid)

    async def _read(self, controlled: ControlledClaim, name: str) -> PendingClaim:
        try:
            return await self._parameters.read(controlled, name)
        except DraError as error:
            self._report([controlled], error)
            raise

    async def _carry_out(
        self, begun: Sequence[tuple[ControlledClaim, PendingClaim]], node: str | None, pod: Pod | None
    ) -> None:
        try:
            results = await self._call([pending for _, pending in begun], node)
        except DraError as error:
            self._report([controlled for controlled, _ in begun], error)
            raise
        failures: list[DraError] = []
        for controlled, pending in begun:
            try:
                await self._write(controlled, results[pending.uid], node, pod)
            except DraError as error:
                failures.append(error)
                self._report([controlled], error)
        if failures:
            raise failures[0]

    async def _call(
        self, claims: Sequence[PendingClaim], node: str | None
    ) -> dict[str, ControllerAllocationResult | AllocationError]:
        method = self._driver.allocate
        about = f" of claims {', '.join(f'{claim.namespace}/{claim.name}' for claim in claims)}"
        with self._reports.metrics.observe("allocate"):
            returned = await self._calls.call(method, claims, node, about=about)
        try:
            return check_allocated(self._driver.name, returned, claims)
        except DriverError as error:
            for claim in claims:  # the driver may hold anything
                self._state.attempts.pop(claim.uid, None)
            raise DriverError(f"{error}{format_location(find_definition(method))}") from error

    async def _write(
        self,
        controlled: ControlledClaim,
        result: ControllerAllocationResult | AllocationError,
        node: str | None,
        pod: Pod | None,
    ) -> None:
        if isinstance(result, AllocationError):
            raise result
        claim = controlled.claim
        uid = claim.metadata.uid
        now = datetime.now(UTC).replace(microsecond=0)
        try:
            allocation = build_allocation(controlled, result, node, now, self._state.classes.items)
        except InvalidObjectError:
            self._state.attempts.pop(uid, None)  # so that it is released
            raise
        consumer = _consumer(pod) if pod is not None else None
        chosen = allocation.node_selector.only_node if node is None and allocation.node_selector else ""
        try:
            if chosen:
                await self._writes.record_node(claim, chosen)
            self._state.attempts[uid] = replace(self._state.attempts[uid], is_written=True)
            await self._writes.write_allocation(claim, allocation, consumer)
        except ClaimChangedError as error:
            self._state.attempts.pop(uid, None)
            _log.info("%s", error)
            current = self._state.claim(uid)
            if current is not None and current.allocation is not None:
                self._state.withdrawn.add(uid)
                await self._releaser.withdraw(uid)
            return
        self._state.attempts.pop(uid, None)
        self._state.changes += 1
        self._reports.metrics.count_allocated()
        _log.info("allocated claim %s%s", claim.ref, f" for node {node}" if node else "")

    def _report(self, claims: Iterable[ControlledClaim], error: DraError) -> None:
        for controlled in claims:
            meta = controlled.claim.metadata
            self._reports.report("allocate", meta.namespace, meta.name, meta.uid, str(error))


def _consumer(pod: Pod) -> ConsumerReference:
    return ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
