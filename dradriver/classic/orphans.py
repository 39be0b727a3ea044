"""Release orphans: what the hardware holds for claims that exist no longer, or that have no allocation.

An orphan remains if a record is lost, or if a change of the hardware takes effect after the request for it was
given up. So the driver is asked at start and at intervals (`allocations`). After each answer the claims are
listed from the API server, so the list contains every allocation that existed when the hardware answered. A
claim with a finalizer, a record or an attempt is left to its task. If the process dies, the next one asks
again.
"""

import asyncio
import logging

from dradriver.classic.releasing import Releaser
from dradriver.classic.reports import ControllerReports
from dradriver.classic.results import check_uids
from dradriver.classic.state import ControllerState
from dradriver.driver import ControllerDriver, RecordedClaim
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.errors import DraError, DriverError
from dradriver.kube import CLAIMS, Client
from dradriver.kube.backoff import Backoff
from dradriver.kube.object_tasks import RETRY_SECONDS
from dradriver.model.classic.names import finalizer
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.driver_calls import Calls

__all__ = ["OrphanedClaims"]

_log = logging.getLogger(__name__)


class OrphanedClaims:
    """Releases the orphans of a driver.

    Args:
        driver: the author's driver.
        client: the API server. It needs `list` on claims.
        state: the state of the process.
        releaser: releases claims.
        calls: calls the driver.
        reports: receives failures.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        client: Client,
        state: ControllerState,
        releaser: Releaser,
        calls: Calls,
        reports: ControllerReports,
    ) -> None:
        self._driver = driver
        self._client = client
        self._state = state
        self._releaser = releaser
        self._calls = calls
        self._reports = reports

    async def keep_releasing(self) -> None:
        """Release the orphans now and every `check_allocations_seconds`, until canceled."""
        while True:
            await self.release()
            await asyncio.sleep(self._driver.check_allocations_seconds)

    async def release(self) -> None:
        """Release the orphans that exist now; after an error, try again."""
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            try:
                await self._release_all()
            except DraError as error:
                _log.warning("list of allocations: %s", error)
                self._reports.metrics.count_failure("allocations")
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _release_all(self) -> None:
        method = self._driver.allocations
        busy = {uid for uid in self._state.uids() if self._state.has_task(uid)}
        try:
            held = check_uids(self._driver.name, await self._calls.call(method))
        except DriverError as error:
            raise DriverError(f"{error}{format_location(find_definition(method))}") from error
        if not held:
            return
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        if listing.unreadable:
            # Such a claim may be any of those that the hardware holds, so nothing is released.
            unreadable = ", ".join(sorted(listing.unreadable))
            raise DraError(f"allocations were not compared with the claims: {unreadable} cannot be read")
        # The list may be newer than the caches: a process with another Lease may allocate a claim now.
        own = finalizer(self._state.controller)
        kept = {
            claim.metadata.uid
            for claim in listing.items
            if claim.allocation is not None or own in claim.metadata.finalizers
        }
        failures: list[DraError] = []
        for uid in sorted(held - kept - busy):
            try:
                await self._release_one(uid)
            except DraError as error:  # it was reported; the other orphans must not wait for this one
                failures.append(error)
        if failures:
            raise failures[0]

    async def _release_one(self, uid: str) -> None:
        async with self._state.locks.hold(uid):
            claim = self._state.claim(uid)
            if self._state.has_task(uid) or (claim is not None and claim.allocation is not None):
                return  # its allocation has begun since the answer
            await self._releaser.deallocate(_as_recorded(uid, claim))


def _as_recorded(uid: str, claim: ResourceClaim | None) -> RecordedClaim:
    if claim is None:
        return RecordedClaim(uid)
    return RecordedClaim(uid, claim.metadata.namespace, claim.metadata.name)
