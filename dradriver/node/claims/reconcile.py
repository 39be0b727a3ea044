"""Putting right what nobody calls for: claims that are gone, files that are lost, files that nobody owns.

The state's file is compared with CDI specs and driver when it was opened: a disk may have lost what was written
last, and SQLite then shows an older state that is whole. A file that knows less than they do is rebuilt, as a
new one is.

Nothing is collected on a guess: a claim is gone when the API server says so. While it does not answer,
everything stays.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from dradriver.driver.code_places import defined_at
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube.errors import NotFound
from dradriver.kube.resources import CLAIMS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.api import Api
from dradriver.node.claims.driver_results import listed_claims
from dradriver.node.claims.lookup import ClaimLookup, runs_on
from dradriver.node.claims.prepare import Preparation
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import ClaimError
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.reporting.deduplicate import Repeats
from dradriver.node.reporting.metrics import Metrics
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import ClaimRef, PreparedClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import State

__all__ = ["Reconciler"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS: Final = (1.0, 60.0)
_NUDGE_SECONDS: Final = 2.0
_NAMED: Final = 5


class Reconciler:
    """Rebuilds, collects and sweeps: `run()` until cancelled.

    Args:
        client: the API server.
        calls: the driver.
        node: the node's name.
        state: what is recorded.
        files: the claims' files.
        preparation: does the work.
        metrics: counts failures.
        on_lost: is told when the state has lost claims.
    """

    def __init__(
        self,
        client: Api,
        calls: DriverCalls,
        node: str,
        state: State,
        files: ClaimFiles,
        preparation: Preparation,
        metrics: Metrics,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._lookup = ClaimLookup(client)
        self._calls = calls
        self._driver = calls.driver
        self._node = node
        self._state = state
        self._files = files
        self._preparation = preparation
        self._metrics = metrics
        self._on_lost = on_lost
        self._repeats = Repeats()
        self._nudged = asyncio.Event()
        self._collects_prepared = False

    async def run(self, collect_seconds: float, sweep_seconds: float) -> None:
        """Completes the state first, and whenever its file was replaced; collects and sweeps for ever."""
        clock = asyncio.get_running_loop().time
        next_collection = clock()
        while True:
            await self.complete()
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
        """A claim was refused because of another: is that one gone?

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

    async def complete(self) -> None:
        """Makes the state know every claim that may be prepared here; nothing is prepared before.

        A process that dies in between begins again: the state is marked complete at the very end, and marked
        incomplete before anything in it changes.
        """
        wait, longest = _RETRY_SECONDS
        while True:
            try:
                if not await self._state.read(Rows.complete):
                    self._preparation.complete.clear()
                    await self._check()
                    if not await self._state.read(Rows.marked_complete):
                        await self._rebuild()
                    await self._state.write(Rows.set_complete)
                break
            except DraError as error:
                self._failed(
                    "rebuild", f"prepared state is not complete yet, trying again in {wait:g} s", error
                )
                await asyncio.sleep(wait)
                wait = min(wait * 2, longest)
        self._preparation.complete.set()

    async def _check(self) -> None:
        """Marks a state incomplete that knows less than CDI specs or driver."""
        if not await self._state.read(Rows.marked_complete):
            return
        lost = await self._unrecorded()
        if lost:  # or another instance has unprepared the claim meanwhile
            lost &= await self._unrecorded()
        if lost:
            told = (
                "the prepared state has lost what was written last, and is rebuilt: of claims with UID "
                f"{_some(lost)} there is a CDI spec, or the driver knows them, but no record"
            )
            _log.error("%s", told)
            self._on_lost(told)
            await self._state.write(Rows.set_incomplete)

    async def _unrecorded(self) -> set[str]:
        """The claims that were prepared here, as specs or driver say, and that are not recorded.

        A claim is recorded before there is anything of it, until there is nothing any more: so the record is
        looked for last.
        """
        evidence = await self._evidence()
        return evidence - {row.uid for row in await self._state.read(Rows.all)}

    async def _evidence(self) -> set[str]:
        """The claims that were prepared here, as specs or driver say."""
        return await asyncio.to_thread(self._files.specs) | await self._known_to_driver()

    async def collect(self, *, prepared: bool = True) -> None:
        """Unprepares the claims that are gone, and what nobody knows of any more.

        Args:
            prepared: False for claims alone whose prepare was not finished.
        """
        try:
            rows = await self._state.read(Rows.all)
        except DraError as error:
            self._failed("collect", "claims that are gone can't be looked for", error)
            return
        await asyncio.gather(
            *(self._collect(row) for row in rows if prepared or row.state is not ClaimState.PREPARED)
        )
        if not prepared:
            return
        try:
            await self._collect_unknown()
        except DraError as error:
            self._failed("collect", "what the driver left behind can't be looked for", error)

    async def sweep(self) -> None:
        """Writes lost files again and removes files that no recorded claim owns."""
        try:
            # Listed before the rows: a claim is recorded before its files are written.
            present = await asyncio.to_thread(self._files.uids)
            rows = await self._state.read(Rows.all)
        except DraError as error:
            self._failed("sweep", "CDI specs can't be checked", error)
            return
        recorded = {row.uid for row in rows}
        for uid in present - recorded:
            if await self._attempt("sweep", self._preparation.remove_orphaned_files(uid), uid):
                _log.info("removed the files of claim UID %s, which is not prepared here", uid)
        for uid in recorded:
            if await self._attempt("sweep", self._preparation.write_lost_files(uid), uid):
                _log.warning("wrote the lost CDI spec of claim UID %s again", uid)

    async def _collect(self, row: PreparedClaimRecord) -> None:
        ref = row.record.ref
        try:
            if not await self._still_here(ref):
                _log.info("claim %s is gone, unpreparing it", ref)
                await self._preparation.unprepare(ref, unless=partial(self._still_here, ref))
        except DraError as error:
            self._failed("collect", f"claim {ref} is left as it is", error)

    async def _still_here(self, ref: ClaimRef) -> bool:
        """Whether the API server knows the claim, allocated for this node and this driver."""
        try:
            claim = await self._lookup.get(ref)
        except NotFound:
            return False
        return claim.metadata.uid == ref.uid and self._is_ours(claim)

    def _is_ours(self, claim: ResourceClaim) -> bool:
        return any(result.driver == self._driver.name for result in claim.results) and runs_on(
            claim, self._node
        )

    async def _collect_unknown(self) -> None:
        """Unprepares what the hardware knows and neither the state nor the API server does."""
        known = await self._known_to_driver()
        if not known:
            return
        recorded = {row.uid for row in await self._state.read(Rows.all)}
        if not known - recorded:
            return
        claims, unreadable = await self._our_claims()
        if unreadable:
            return  # one of them may be the claim in question
        for uid in sorted(known - recorded - {claim.metadata.uid for claim in claims}):
            _log.info("driver %s knows claim UID %s, which is gone: unpreparing it", self._driver.name, uid)
            work = self._preparation.unprepare(ClaimRef(uid), unless=partial(self._is_recorded, uid))
            await self._attempt("collect", work, uid)

    async def _is_recorded(self, uid: str) -> bool:
        return await self._state.read(lambda rows: rows.get(uid)) is not None

    async def _known_to_driver(self) -> set[str]:
        method = self._driver.prepared_claims
        return listed_claims(self._driver.name, await self._calls.call(method), defined_at(method))

    async def _our_claims(self) -> tuple[list[ResourceClaim], Mapping[str, DraError]]:
        """The claims with devices of this driver that can be used here, and those that can't be read."""
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        for key, error in listing.unreadable.items():
            self._failed("collect", f"claim {key} can't be read", error)
        return [claim for claim in listing.items if self._is_ours(claim)], listing.unreadable

    async def _rebuild(self) -> None:
        """Finds the claims that may be prepared here, as the API server, the specs and the driver say.

        Those of which there is a CDI spec, or that the driver knows, were prepared: the driver prepares them
        again, which is how their answers are found out; or takes them back when the claim is gone. Others that
        are reserved and that only this node can use may have been: they keep their devices from other claims
        until the kubelet says more, or they are gone. What is recorded of a claim that is still allocated like
        that stays; a record that outlived its claim is ended first.
        """
        evidence = await self._evidence()
        claims, unreadable = await self._our_claims()
        prepared = [claim for claim in claims if claim.metadata.uid in evidence]
        gone = evidence - {claim.metadata.uid for claim in claims} if not unreadable else set()
        reserved = [claim for claim in claims if claim.status.reserved_for and self._is_bound_here(claim)]
        if evidence:
            _log.warning(
                "rebuilding the prepared state: %d claims were prepared here, of which %d are gone",
                len(evidence),
                len(gone),
            )
        if not unreadable:
            await self._end_stale(claims, evidence)
        for uid in sorted(gone):
            await self._attempt("rebuild", self._preparation.unprepare(ClaimRef(uid), rebuilding=True), uid)
        for claim in (*prepared, *reserved):
            try:
                await self._preparation.hold(claim)
            except (ClaimError, InvalidObjectError) as error:
                self._failed("rebuild", f"claim {claim.ref} is not recorded", error)
        for claim in prepared:
            await self._attempt("rebuild", self._preparation.prepare(claim, rebuilding=True), claim.ref)

    async def _end_stale(self, claims: Sequence[ResourceClaim], evidence: Collection[str]) -> None:
        """Ends records of which neither API server, specs nor driver knows any more.

        They are those whose end was lost. Their devices may belong to another claim since: then the driver is
        not asked to take them back.
        """
        allocated = {claim.metadata.uid: self._devices(claim) for claim in claims}
        for row in await self._state.read(Rows.all):
            held = {(each.pool, each.device, each.share_id, each.admin_access) for each in row.record.devices}
            if row.uid in evidence or allocated.get(row.uid) == held:
                continue
            ref = row.record.ref
            if any(held & devices for uid, devices in allocated.items() if uid != row.uid):
                _log.warning("claim %s is gone, and its devices belong to another claim: forgetting it", ref)
                await self._attempt("rebuild", self._preparation.forget(ref), str(ref))
            else:
                await self._attempt("rebuild", self._preparation.unprepare(ref, rebuilding=True), str(ref))

    def _devices(self, claim: ResourceClaim) -> set[tuple[str, str, str, bool]]:
        """This driver's devices of a claim: pool, name, share, and whether the claim only looks."""
        return {
            (result.pool, result.device, result.share_id or "", result.admin_access is True)
            for result in claim.results
            if result.driver == self._driver.name
        }

    async def _attempt(self, source: str, work: Awaitable[T], claim: str) -> T | None:
        """Does it if possible, else None: the next call, collection or sweep goes on from there."""
        try:
            return await work
        except DraError as error:
            self._failed(source, f"claim {claim} could not be brought to an end", error)
            return None

    def _is_bound_here(self, claim: ResourceClaim) -> bool:
        selector = claim.allocation.node_selector if claim.allocation else None
        return selector is not None and any(term.match_fields for term in selector.node_selector_terms)

    def _failed(self, source: str, what: str, error: DraError) -> None:
        self._metrics.background_error(source)
        if news := self._repeats.news(f"{source} {what}", f"{what}: {error}"):
            _log.warning("%s", news)


def _some(uids: Collection[str]) -> str:
    first = ", ".join(sorted(uids)[:_NAMED])
    return f"{first} and {len(uids) - _NAMED} more" if len(uids) > _NAMED else first
