"""Repairs that no call asks for: claims that are gone, files that are lost, files without a recorded claim.

Nothing is collected on a guess: a claim is gone when the API server says so. While it does not answer,
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
    """Rebuilds, collects and sweeps: `run()` until cancelled.

    Args:
        context: the parts of the node.
        claims: the claims as API server and driver know them.
        rebuilder: makes the state complete.
        failures: where failures are reported.
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
        """Completes the state first, and whenever its file was replaced; collects and sweeps for ever."""
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
        """A claim was refused because of another: the next collection looks soon whether that one is gone.

        Args:
            prepared: also look at claims that are prepared, whose containers may run.
        """
        self._collects_prepared |= prepared
        self._nudged.set()

    async def _pause(self, seconds: float) -> None:
        # Not at once: a refused claim is asked for again and again.
        await asyncio.sleep(min(seconds, _NUDGE_SECONDS))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - _NUDGE_SECONDS)):
                await self._nudged.wait()

    async def collect(self, *, prepared: bool = True) -> None:
        """Unprepares the claims that are gone, and what is known to the driver alone.

        Args:
            prepared: False for claims alone whose prepare was not finished.
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
        """Writes lost files again and removes files that no recorded claim owns."""
        try:
            # Listed before the rows: a claim is recorded before its files are written.
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
        """Unprepares what the hardware knows and neither the state nor the API server does."""
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
        """Writes the files of a prepared claim again if they are lost; True if the CDI spec was.

        A claim that is being worked on is left alone. A process that is killed in between leaves some files
        written; the next sweep, or a prepare, writes the rest.

        Raises:
            StateError: they can't be written.
        """
        async with self._context.stores.locks.hold_if_free(uid) as free:
            row = await self._state.read(lambda rows: rows.get(uid))
            if not free or row is None or row.state is not ClaimState.PREPARED:
                return False
            if row.boot_id != self._state.boot_id:
                return False  # what the driver answered in another boot may no longer be true
            return await self._context.in_thread(self._files.write, self._files.texts(row.record))

    async def _remove_orphaned_files(self, uid: str) -> bool:
        """Removes files of a claim that is not recorded; True if it is not.

        A claim that is being worked on is left alone. A process that is killed in between leaves the rest of
        the files to the next sweep.

        Raises:
            StateError: they can't be removed.
        """
        async with self._context.stores.locks.hold_if_free(uid) as free:
            # A file that is not complete knows too little to say that no claim owns them.
            orphaned = await self._state.read(lambda rows: rows.complete() and rows.get(uid) is None)
            if not (free and orphaned):
                return False
            await self._context.in_thread(self._files.remove, ClaimRef(uid))
            return True
