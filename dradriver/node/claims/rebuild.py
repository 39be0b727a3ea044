"""Rebuild the prepared state, so that it has every claim that is possibly prepared on this node.

If the disk has lost the last writes, SQLite shows an older but consistent state, and reports no error.
Therefore, after the state file is opened, it is compared with the CDI specs and the driver's
`prepared_claims()`. If a claim is missing in the file, the state is rebuilt, as it is for a new file.

| side effect                       | if the process dies right after it                                     |
|-----------------------------------|------------------------------------------------------------------------|
| state marked incomplete           | the next start rebuilds the state before any claim is prepared         |
| unprepare of a claim that is gone | the next start rebuilds the state                                      |
| claim recorded as preparing       | the next start rebuilds the state; other claims cannot get its devices |
| claim prepared again              | the next start rebuilds the state                                      |
| state marked complete             | the state is complete                                                  |
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
from dradriver.node.claims.lookup import NodeClaims, is_bound, to_allocated_claim
from dradriver.node.claims.prepare import look_up_shared_pools, prepare
from dradriver.node.claims.unprepare import forget, unprepare
from dradriver.node.errors import ClaimError
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRef
from dradriver.node.state.rows import Rows

__all__ = ["Rebuilder", "record_hold"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (1.0, 60.0)
_MAX_UIDS: Final = 5


async def record_hold(context: ClaimContext, claim: ResourceClaim) -> None:
    """Record a claim that is possibly prepared, so that no other claim gets its devices.

    The driver is not called.

    Raises:
        DeviceInUseError: a recorded claim conflicts with this claim. This claim is not recorded.
        DraError: the claim is not for this node, or cannot be recorded.
    """
    await context.inventory.wait_known(context.deadline)
    allocated = to_allocated_claim(claim, context.driver.name, context.node)
    with suppress(DraError):  # without the pools, the devices count as unknown and block other claims
        await look_up_shared_pools(context, allocated.record)

    def work(rows: Rows) -> None:
        if rows.get(allocated.record.uid) is None:
            rows.move(context.acceptance.check_hold(allocated, rows), ClaimEvent.BEGIN_PREPARE)

    async with context.stores.locks.hold(allocated.record.uid):
        await context.stores.state.write(work)


class Rebuilder:
    """Makes the prepared state complete: adds every claim that is possibly prepared on this node.

    Args:
        context: the parts of the node.
        claims: lists the claims of the API server and the driver.
        failures: reports failures.
        on_lost: called with a message when the state has lost claims.
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
        """Add every claim that is possibly prepared here to the state; until this is done, prepares wait.

        If the process dies in between, the next process begins again: the state is marked incomplete before the
        first change, and marked complete after the last change.
        """
        wait, longest = _RETRY_SECONDS
        while True:
            try:
                if not await self._state.read(Rows.is_complete):
                    self._context.state_complete.clear()
                    await self._check_lost_claims()
                    if not await self._state.read(Rows.is_marked_complete):
                        await self._rebuild()
                    await self._state.write(Rows.set_complete)
                break
            except DraError as error:
                subject = f"prepared state is not complete yet, next attempt in {wait:g} s"
                self._failures.report("rebuild", subject, error)
                await asyncio.sleep(wait)
                wait = min(wait * 2, longest)
        self._context.state_complete.set()

    async def _check_lost_claims(self) -> None:
        """Mark the state incomplete if a claim has a CDI spec or is known to the driver, but has no record."""
        if not await self._state.read(Rows.is_marked_complete):
            return
        lost = await self._find_unrecorded()
        if lost:  # another instance may have unprepared the claim meanwhile
            lost &= await self._find_unrecorded()
        if lost:
            message = (
                "the prepared state has lost its last writes and is rebuilt: claims with a CDI spec, or "
                f"that the driver reports, have no record: UID {_format_uids(lost)}"
            )
            _log.error("%s", message)
            self._on_lost(message)
            await self._state.write(Rows.set_incomplete)

    async def _find_unrecorded(self) -> set[str]:
        """Return the claims that have a CDI spec, or that the driver reports, but that have no record.

        A claim's record is written before its spec, so the records are read last: if a claim is prepared while
        this method runs, and its spec has been read, its record is read too.
        """
        evidence = await self._find_evidence()
        return evidence - {row.uid for row in await self._state.read(Rows.all)}

    async def _find_evidence(self) -> set[str]:
        """Return the claims that have a CDI spec, or that the driver reports as prepared."""
        return await asyncio.to_thread(self._files.uids_of_specs) | await self._claims.list_prepared_by_driver()

    async def _rebuild(self) -> None:
        """Find the claims that are possibly prepared here, from the API server, the specs and the driver.

        Claims with a CDI spec, and claims that the driver reports, were prepared. If such a claim still exists,
        the driver prepares it again, which restores its answers. Otherwise the driver unprepares it. Claims
        without such evidence are possibly prepared if they are reserved and allocated to specific nodes. They
        are recorded, so that no other claim gets their devices until the kubelet prepares or unprepares them,
        or they are gone. An existing record stays if its claim still has the recorded devices. Records of
        claims that are gone are removed first.
        """
        evidence = await self._find_evidence()
        claims, unreadable = await self._claims.list_claims()
        prepared = [claim for claim in claims if claim.metadata.uid in evidence]
        gone = evidence - {claim.metadata.uid for claim in claims} if not unreadable else set()
        reserved = [claim for claim in claims if claim.status.reserved_for and is_bound(claim)]
        if evidence:
            _log.warning(
                "rebuilding the prepared state: %d claims were prepared here, %d of them are gone",
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
                await record_hold(self._context, claim)
            except (ClaimError, InvalidObjectError) as error:
                self._failures.report("rebuild", f"claim {claim.ref} is not recorded", error)
        for claim in prepared:
            await attempt(prepare(self._context, claim, rebuilding=True), claim.ref)

    async def _end_stale(self, claims: Sequence[ResourceClaim], evidence: Collection[str]) -> None:
        """Unprepare recorded claims whose allocation is gone, if neither a CDI spec nor the driver has them.

        The disk has lost the write that deleted such a record. If another claim has got one of its devices
        since then, the record is deleted without a call of the driver's `unprepare`.
        """
        allocated = {claim.metadata.uid: self._devices(claim) for claim in claims}
        attempt = partial(self._failures.attempt, "rebuild")
        for row in await self._state.read(Rows.all):
            held = {(hold.pool, hold.device, hold.share_id, hold.admin_access) for hold in row.record.devices}
            if row.uid in evidence or allocated.get(row.uid) == held:
                continue
            ref = row.record.ref
            # Another claim may have a shareable device too, and this claim's part of it must be released.
            held -= {(each.pool, each.device, "", False) for each in row.record.devices if each.shareable}
            if any(held & devices for uid, devices in allocated.items() if uid != row.uid):
                _log.warning("claim %s is gone, another claim has its devices: deleting its record", ref)
                await attempt(forget(self._context, ref), ref)
            else:
                await attempt(unprepare(self._context, ref, rebuilding=True), ref)

    def _devices(self, claim: ResourceClaim) -> set[tuple[str, str, str, bool]]:
        """Return the claim's devices of this driver: pool, name, share ID, and admin access."""
        return {
            (result.pool, result.device, result.share_id or "", result.admin_access is True)
            for result in claim.results
            if result.driver == self._context.driver.name
        }


def _format_uids(uids: Collection[str]) -> str:
    first = ", ".join(sorted(uids)[:_MAX_UIDS])
    return f"{first} and {len(uids) - _MAX_UIDS} more" if len(uids) > _MAX_UIDS else first
