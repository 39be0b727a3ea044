"""Repairs that no call requests: claims that are gone, lost files, files without a recorded claim.

A claim counts as gone only if the API server says that it does not exist. While the API server does not answer,
everything stays.
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

_NUDGE_SECONDS: Final = 2.0


class Reconciler:
    """Rebuilds, collects and sweeps: `run()` until canceled.

    Args:
        context: the parts of the node.
        claims: the claims of the API server and the driver.
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
        self._nudged = asyncio.Event()
        self._collects_prepared = False

    async def run(self, collect_seconds: float, sweep_seconds: float) -> None:
        """Complete the state at start and whenever its file was replaced; collect and sweep periodically."""
        clock = asyncio.get_running_loop().time
        next_collection = clock()
        while True:
            await self._rebuilder.ensure_complete()
            if clock() >= next_collection:
                self.nudge()
            if self._nudged.is_set():
                prepared = self._collects_prepared
                self._nudged.clear()
                self._collects_prepared = False
                await self.collect(prepared=prepared)
                if prepared:
                    next_collection = clock() + collect_seconds
            await self.sweep()
            await self._pause(sweep_seconds)

    def nudge(self, *, prepared: bool = True) -> None:
        """Request an early collection, because a claim was rejected in favor of one that may be gone.

        Args:
            prepared: also check claims that are prepared, whose containers may run.
        """
        self._collects_prepared |= prepared
        self._nudged.set()

    async def _pause(self, seconds: float) -> None:
        # Not immediately: the kubelet retries a rejected claim again and again.
        await asyncio.sleep(min(seconds, _NUDGE_SECONDS))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - _NUDGE_SECONDS)):
                await self._nudged.wait()

    async def collect(self, *, prepared: bool = True) -> None:
        """Unprepare the claims that are gone, and claims that only the driver has.

        Args:
            prepared: False: check only claims whose prepare was not finished.
        """
        try:
            rows = await self._state.read(Rows.all)
        except DraError as error:
            self._failures.report("collect", "claims that are gone can't be looked for", error)
            return
        await asyncio.gather(
            *(self._collect(row) for row in rows if prepared or row.state is not ClaimState.PREPARED)
        )
        if not prepared:
            return
        try:
            await self._collect_unknown()
        except DraError as error:
            self._failures.report("collect", "what the driver left behind can't be looked for", error)

    async def sweep(self) -> None:
        """Restore lost files and remove files that belong to no recorded claim."""
        try:
            # Listed before the records, because a claim is recorded before its files are written.
            present = await asyncio.to_thread(self._files.uids)
            rows = await self._state.read(Rows.all)
        except DraError as error:
            self._failures.report("sweep", "CDI specs can't be checked", error)
            return
        recorded = {row.uid for row in rows}
        for uid in present - recorded:
            if await self._failures.attempt("sweep", self._remove_orphaned_files(uid), uid):
                _log.info("removed the files of claim UID %s, which is not prepared here", uid)
        for uid in recorded:
            if await self._failures.attempt("sweep", self._write_lost_files(uid), uid):
                _log.warning("wrote the lost CDI spec of claim UID %s again", uid)

    async def _collect(self, row: PreparedClaimRecord) -> None:
        ref = row.record.ref
        try:
            if not await self._claims.still_here(ref):
                _log.info("claim %s is gone, unpreparing it", ref)
                await unprepare(self._context, ref, unless=partial(self._claims.still_here, ref))
        except DraError as error:
            self._failures.report("collect", f"claim {ref} is left as it is", error)

    async def _collect_unknown(self) -> None:
        """Unprepare the claims that only the hardware has: neither the state nor the API server does."""
        known = await self._claims.known_to_driver()
        if not known:
            return
        recorded = {row.uid for row in await self._state.read(Rows.all)}
        if not known - recorded:
            return
        claims, unreadable = await self._claims.listed()
        if unreadable:
            return  # one of them may be the claim in question
        for uid in sorted(known - recorded - {claim.metadata.uid for claim in claims}):
            _log.info(
                "driver %s knows claim UID %s, which is gone: unpreparing it", self._context.driver.name, uid
            )
            work = unprepare(self._context, ClaimRef(uid), unless=partial(self._is_recorded, uid))
            await self._failures.attempt("collect", work, uid)

    async def _is_recorded(self, uid: str) -> bool:
        return await self._state.read(lambda rows: rows.get(uid)) is not None

    async def _write_lost_files(self, uid: str) -> bool:
        """Restore lost files of a prepared claim; return True if the CDI spec was lost.

        A claim with an operation in progress is skipped. If the process dies in between, some files are
        written, and the next sweep or prepare writes the rest.

        Raises:
            StateError: the files cannot be written.
        """
        async with self._context.stores.locks.hold_if_free(uid) as free:
            row = await self._state.read(lambda rows: rows.get(uid))
            if not free or row is None or row.state is not ClaimState.PREPARED:
                return False
            if row.boot_id != self._state.boot_id:
                return False  # the driver's answer in another boot may no longer be valid
            return await self._context.in_thread(self._files.write, self._files.texts(row.record))

    async def _remove_orphaned_files(self, uid: str) -> bool:
        """Remove files of a claim that is not recorded; return True if it has no record.

        A claim with an operation in progress is skipped. If the process dies in between, the next sweep removes
        the rest of the files.

        Raises:
            StateError: the files cannot be removed.
        """
        async with self._context.stores.locks.hold_if_free(uid) as free:
            # An incomplete state cannot prove that no claim owns the files.
            orphaned = await self._state.read(lambda rows: rows.complete() and rows.get(uid) is None)
            if not (free and orphaned):
                return False
            await self._context.in_thread(self._files.remove, ClaimRef(uid))
            return True
