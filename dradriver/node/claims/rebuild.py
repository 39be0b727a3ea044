"""Rebuild the prepared state: afterwards it has every claim that may be prepared on this node.

After the state file is opened, it is compared with the CDI specs and the driver. A disk may have lost the last
writes, and SQLite then shows an older but consistent state. If a claim is missing in the file, the state is
rebuilt, as for a new file.

| side effect                          | if the process dies right after it                       |
|--------------------------------------|----------------------------------------------------------|
| state marked incomplete              | the next start rebuilds it; nothing is prepared before   |
| record of a claim that is gone ended | the same                                                 |
| claim recorded as preparing          | the same; the record keeps its devices from other claims |
| claim prepared again                 | the same                                                 |
| state marked complete                | the state is complete                                    |
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
    """Record a claim that may be prepared, without a call of the driver, to keep its devices from others.

    Raises:
        DeviceInUseError: another claim is recorded for the devices. This claim is then not recorded.
        DraError: the claim is not for this node, or cannot be recorded.
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
        claims: the claims of the API server and the driver.
        failures: reports failures.
        on_lost: called with a sentence when the state has lost claims.
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
        """Add every claim that may be prepared here to the state; nothing is prepared before that.

        If the process dies in between, the next one begins again: the state is marked incomplete before any
        change, and marked complete at the very end.
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
        """Mark the state incomplete if a claim of the CDI specs or the driver is missing in it."""
        if not await self._state.read(Rows.marked_complete):
            return
        lost = await self._unrecorded()
        if lost:  # another instance may have unprepared the claim meanwhile
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
        """Return the claims that were prepared here, by specs or driver, and have no record.

        A claim's record is the first trace that is written and the last that is deleted. Therefore the records
        are read last.
        """
        evidence = await self._evidence()
        return evidence - {row.uid for row in await self._state.read(Rows.all)}

    async def _evidence(self) -> set[str]:
        """Return the claims that were prepared here, by specs or driver."""
        return await asyncio.to_thread(self._files.specs) | await self._claims.known_to_driver()

    async def _rebuild(self) -> None:
        """Find the claims that may be prepared here, from the API server, the specs and the driver.

        Claims with a CDI spec, and claims that the driver reports, were prepared. The driver prepares them
        again, which restores their answers, or unprepares them if the claim is gone. Other claims that are
        reserved, and that only this node can use, may have been prepared. They keep their devices from other
        claims until the kubelet calls for them or they are gone. The record of a claim stays if the claim still
        has this allocation. A record that outlived its claim is ended first.
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
        """End records of claims that neither the API server nor the specs nor the driver has any more.

        Their end was lost. Another claim may have got their devices since then; in this case the driver is not
        asked to unprepare them.
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
        """Return this driver's devices of a claim: pool, name, share, and whether it is admin access."""
        return {
            (result.pool, result.device, result.share_id or "", result.admin_access is True)
            for result in claim.results
            if result.driver == self._context.driver.name
        }


def _some(uids: Collection[str]) -> str:
    first = ", ".join(sorted(uids)[:_NAMED])
    return f"{first} and {len(uids) - _NAMED} more" if len(uids) > _NAMED else first
