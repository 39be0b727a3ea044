"""Repair in the background: unprepare claims that are gone, restore lost files, remove orphaned files.

A claim counts as gone only if the API server reports that the claim does not exist, or is not allocated here.
While the API server does not answer, no claim is unprepared.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Final

from dradriver.errors import DraError
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import NodeClaims
from dradriver.node.claims.rebuild import Rebuilder
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import ClaimRef, PreparedClaimRecord
from dradriver.node.state.rows import Rows

__all__ = ["Reconciler"]

_log = logging.getLogger(__name__)

_MIN_PAUSE_SECONDS: Final = 2.0


class Reconciler:
    """Rebuilds the state, unprepares claims that are gone, and repairs files.

    Call `run()`, which runs until it is canceled.

    Args:
        context: the parts of the node.
        claims: lists the claims of the API server and the driver.
        rebuilder: makes the state complete.
        failures: reports failures.
    """

    def __init__(
        self,
        context: ClaimContext,
        claims: NodeClaims,
        rebuilder: Rebuilder,
        failures: BackgroundFailures,
    ) -> None:
        self._context = context
        self._claims = claims
        self._rebuilder = rebuilder
        self._failures = failures
        self._state, self._files = context.stores.state, context.stores.files
        self._requested = asyncio.Event()
        self._collects_prepared = False

    async def run(self, collect_seconds: float, sweep_seconds: float) -> None:
        """Complete the state at start and after the state file was replaced; collect and sweep periodically."""
        clock = asyncio.get_running_loop().time
        next_collection = clock()
        while True:
            await self._rebuilder.ensure_complete()
            if clock() >= next_collection:
                self.request_collection()
            if self._requested.is_set():
                prepared = self._collects_prepared
                self._requested.clear()
                self._collects_prepared = False
                await self.collect(prepared=prepared)
                if prepared:
                    next_collection = clock() + collect_seconds
            await self.sweep()
            await self._pause(sweep_seconds)

    def request_collection(self, *, prepared: bool = True) -> None:
        """Request an early `collect`, because a claim conflicts with another claim that may be gone.

        Args:
            prepared: True: check all claims. False: check only claims whose prepare was not finished.
        """
        self._collects_prepared |= prepared
        self._requested.set()

    async def _pause(self, seconds: float) -> None:
        # A requested collection does not run immediately: the kubelet retries a rejected claim again and again.
        await asyncio.sleep(min(seconds, _MIN_PAUSE_SECONDS))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - _MIN_PAUSE_SECONDS)):
                await self._requested.wait()

    async def collect(self, *, prepared: bool = True) -> None:
        """Unprepare the claims that are gone, and the claims that only the driver knows.

        Args:
            prepared: True: check all claims. False: check only claims whose prepare was not finished.
        """
        try:
            rows = await self._state.read(Rows.all)
        except DraError as error:
            self._failures.report("collect", "claims that are gone cannot be looked up", error)
            return
        await asyncio.gather(
            *(self._collect(row) for row in rows if prepared or row.state is not ClaimState.PREPARED)
        )
        if not prepared:
            return
        try:
            await self._collect_unrecorded()
        except DraError as error:
            self._failures.report("collect", "claims that only the driver has cannot be looked up", error)

    async def sweep(self) -> None:
        """Restore lost files, and remove files that belong to no recorded claim."""
        try:
            # The files are listed before the records, because a claim is recorded before its files are written.
            present = await asyncio.to_thread(self._files.uids)
            rows = await self._state.read(Rows.all)
        except DraError as error:
            self._failures.report("sweep", "CDI specs cannot be checked", error)
            return
        recorded = {row.uid for row in rows}
        for uid in present - recorded:
            if await self._failures.attempt("sweep", self._remove_orphaned_files(uid), uid):
                _log.info("claim UID %s: removed its files, because it is not prepared here", uid)
        for uid in recorded:
            if await self._failures.attempt("sweep", self._write_lost_files(uid), uid):
                _log.warning("claim UID %s: wrote its lost CDI spec again", uid)

    async def _collect(self, row: PreparedClaimRecord) -> None:
        ref = row.record.ref
        try:
            if not await self._claims.is_still_allocated(ref):
                _log.info("claim %s is gone, unpreparing it", ref)
                await unprepare(self._context, ref, unless=partial(self._claims.is_still_allocated, ref))
        except DraError as error:
            self._failures.report("collect", f"claim {ref} stays as it is", error)

    async def _collect_unrecorded(self) -> None:
        """Unprepare the claims that the driver reports, but that neither the state nor the API server has."""
        known = await self._claims.list_prepared_by_driver()
        if not known:
            return
        recorded = {row.uid for row in await self._state.read(Rows.all)}
        if not known - recorded:
            return
        claims, unreadable = await self._claims.list_claims()
        if unreadable:
            return  # an unreadable claim may be one that the driver reports
        for uid in sorted(known - recorded - {claim.metadata.uid for claim in claims}):
            _log.info("claim UID %s is gone, but the driver has it: unpreparing it", uid)
            work = unprepare(self._context, ClaimRef(uid), unless=partial(self._is_recorded, uid))
            await self._failures.attempt("collect", work, uid)

    async def _is_recorded(self, uid: str) -> bool:
        return await self._state.read(lambda rows: rows.get(uid)) is not None

    async def _write_lost_files(self, uid: str) -> bool:
        """Restore lost files of a prepared claim; return True if the CDI spec was lost.

        A claim with an operation in progress is skipped. If the process dies in between, the next sweep or
        prepare writes the missing files.

        Raises:
            StateError: the files cannot be written.
        """
        async with self._context.stores.locks.hold_if_free(uid) as free:
            row = await self._state.read(lambda rows: rows.get(uid))
            if not free or row is None or row.state is not ClaimState.PREPARED:
                return False
            if row.boot_id != self._state.boot_id:
                return False  # the driver's answer from an earlier boot may no longer be valid
            return await self._context.run_in_thread(
                self._files.write, self._files.compute_contents(row.record)
            )

    async def _remove_orphaned_files(self, uid: str) -> bool:
        """Remove files of a claim that is not recorded; return True if it has no record.

        A claim with an operation in progress is skipped. If the process dies in between, the next sweep removes
        the rest of the files.

        Raises:
            StateError: the files cannot be removed.
        """
        async with self._context.stores.locks.hold_if_free(uid) as free:
            # An incomplete state cannot prove that no claim owns the files.
            orphaned = await self._state.read(lambda rows: rows.is_complete() and rows.get(uid) is None)
            if not (free and orphaned):
                return False
            await self._context.run_in_thread(self._files.remove, ClaimRef(uid))
            return True
