"""Rebuilding the prepared state: afterwards it knows every claim that may be prepared on this node.

The state's file is compared with CDI specs and driver when it was opened: a disk may have lost what was written
last, and SQLite then shows an older state that is whole. A file that knows less than they do is rebuilt, as a
new one is.

| side effect                       | killed right after it                                           |
|-----------------------------------|-----------------------------------------------------------------|
| state marked incomplete           | the next start rebuilds it; nothing is prepared before          |
| record of a claim that is gone ended | the same                                                     |
| claim recorded as preparing       | the same; the record keeps its devices from other claims        |
| claim prepared again              | the same                                                        |
| state marked complete             | the state is complete                                           |
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from dradriver.errors import DraError, InvalidObjectError
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import NodeClaims, allocated_claim, is_bound
from dradriver.node.claims.prepare import find_devices, prepare
from dradriver.node.claims.unprepare import forget, unprepare
from dradriver.node.errors import ClaimError
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRef
from dradriver.node.state.rows import Rows

__all__ = ["Rebuilder", "hold"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (1.0, 60.0)
_NAMED: Final = 5


async def hold(context: ClaimContext, claim: ResourceClaim) -> None:
    """Records that the claim may be prepared, without a call of the driver: its devices are kept from others.

    Raises:
        DeviceInUseError: another claim is recorded for them; this one is not recorded then.
        DraError: the claim is not for this node, or can't be recorded.
    """
    await context.inventory.ready(context.deadline)
    allocated = allocated_claim(claim, context.driver.name, context.node)
    with suppress(DraError):  # an unknown device keeps other claims away
        await find_devices(context, allocated.record)

    def work(rows: Rows) -> None:
        if rows.get(allocated.record.uid) is None:
            rows.move(context.acceptance.held(allocated, rows), ClaimEvent.BEGIN_PREPARE)

    async with context.stores.locks.hold(allocated.record.uid):
        await context.stores.state.write(work)


class Rebuilder:
    """Makes the prepared state complete.

    Args:
        context: the parts of the node.
        claims: the claims as API server and driver know them.
        failures: where failures are reported.
        on_lost: is called with a sentence when the state has lost claims.
    """

    def __init__(
        self,
        context: ClaimContext,
        claims: NodeClaims,
        failures: BackgroundFailures,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._context = context
        self._claims = claims
        self._failures = failures
        self._on_lost = on_lost
        self._state, self._files = context.stores.state, context.stores.files

    async def ensure_complete(self) -> None:
        """Makes the state know every claim that may be prepared here; nothing is prepared before.

        A process that is killed in between begins again: the state is marked complete at the very end, and
        marked incomplete before anything in it changes.
        """
        wait, longest = _RETRY_SECONDS
        while True:
            try:
                if not await self._state.read(Rows.complete):
                    self._context.state_complete.clear()
                    await self._check()
                    if not await self._state.read(Rows.marked_complete):
                        await self._rebuild()
                    await self._state.write(Rows.set_complete)
                break
            except DraError as error:
                what = f"prepared state is not complete yet, trying again in {wait:g} s"
                self._failures.report("rebuild", what, error)
                await asyncio.sleep(wait)
                wait = min(wait * 2, longest)
        self._context.state_complete.set()

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
        return await asyncio.to_thread(self._files.specs) | await self._claims.known_to_driver()

    async def _rebuild(self) -> None:
        """Finds the claims that may be prepared here, as the API server, the specs and the driver say.

        Those of which there is a CDI spec, or that the driver knows, were prepared: the driver prepares them
        again, which is how their answers are found out; or takes them back when the claim is gone. Others that
        are reserved and that only this node can use may have been: they keep their devices from other claims
        until the kubelet says more, or they are gone. What is recorded of a claim that is still allocated like
        that stays; a record that outlived its claim is ended first.
        """
        evidence = await self._evidence()
        claims, unreadable = await self._claims.listed()
        prepared = [claim for claim in claims if claim.metadata.uid in evidence]
        gone = evidence - {claim.metadata.uid for claim in claims} if not unreadable else set()
        reserved = [claim for claim in claims if claim.status.reserved_for and is_bound(claim)]
        if evidence:
            _log.warning(
                "rebuilding the prepared state: %d claims were prepared here, of which %d are gone",
                len(evidence),
                len(gone),
            )
        if not unreadable:
            await self._end_stale(claims, evidence)
        attempt = partial(self._failures.attempt, "rebuild")
        for uid in sorted(gone):
            await attempt(unprepare(self._context, ClaimRef(uid), rebuilding=True), uid)
        for claim in (*prepared, *reserved):
            try:
                await hold(self._context, claim)
            except (ClaimError, InvalidObjectError) as error:
                self._failures.report("rebuild", f"claim {claim.ref} is not recorded", error)
        for claim in prepared:
            await attempt(prepare(self._context, claim, rebuilding=True), claim.ref)

    async def _end_stale(self, claims: Sequence[ResourceClaim], evidence: Collection[str]) -> None:
        """Ends records of which neither API server, specs nor driver knows any more.

        They are those whose end was lost. Their devices may belong to another claim since: then the driver is
        not asked to take them back.
        """
        allocated = {claim.metadata.uid: self._devices(claim) for claim in claims}
        attempt = partial(self._failures.attempt, "rebuild")
        for row in await self._state.read(Rows.all):
            held = {(each.pool, each.device, each.share_id, each.admin_access) for each in row.record.devices}
            if row.uid in evidence or allocated.get(row.uid) == held:
                continue
            ref = row.record.ref
            if any(held & devices for uid, devices in allocated.items() if uid != row.uid):
                _log.warning("claim %s is gone, and its devices belong to another claim: forgetting it", ref)
                await attempt(forget(self._context, ref), ref)
            else:
                await attempt(unprepare(self._context, ref, rebuilding=True), ref)

    def _devices(self, claim: ResourceClaim) -> set[tuple[str, str, str, bool]]:
        """This driver's devices of a claim: pool, name, share, and whether the claim only looks."""
        return {
            (result.pool, result.device, result.share_id or "", result.admin_access is True)
            for result in claim.results
            if result.driver == self._context.driver.name
        }


def _some(uids: Collection[str]) -> str:
    first = ", ".join(sorted(uids)[:_NAMED])
    return f"{first} and {len(uids) - _NAMED} more" if len(uids) > _NAMED else first
