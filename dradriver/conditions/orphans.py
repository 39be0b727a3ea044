"""Detach orphans: attachments that the hardware records, and to which no claim refers.

An orphan remains if a record is lost, or if a change of the hardware takes effect after the request for it was
given up. This can happen at any time, so the hardware is asked again at intervals. After each answer of the
hardware, the claims are listed from the API server, so the list contains every allocation and every record that
existed when the hardware answered. A record that this process adds later is in the cache before `attach` is
called, so the cache is compared too, under the lock of the device. A claim that cannot be read may refer to any
attachment, so nothing is detached then. With `node_releases`, an orphan that its node uses stays until a later
check. If the process dies at any point, the next one asks the hardware again.
"""

import asyncio
import logging
from collections.abc import Mapping

from dradriver.aio.tasks import end
from dradriver.conditions.attachment_diff import device_key, read_record
from dradriver.conditions.driver_values import check_attachments
from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.time_limits import call_within
from dradriver.driver import Attachment, BindingDriver
from dradriver.driver.source_locations import find_definition
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Cache, Client
from dradriver.kube.backoff import Backoff
from dradriver.kube.object_tasks import RETRY_SECONDS
from dradriver.model.resource.claim import DeviceId, ResourceClaim
from dradriver.node.driver_calls import Calls

__all__ = ["OrphanCheck"]

_log = logging.getLogger(__name__)


class OrphanCheck:
    """Detaches the orphans of a driver.

    Args:
        driver: the author's driver.
        client: the API server. It needs `list` on claims.
        claims: the claims as they are now.
        calls: calls the driver.
        locks: by pool, device and share (`device_key`), held while a method of the driver works on it.
        reports: counts errors.
        releases: finds the orphans that their nodes use. None: `detach` does not wait for nodes.
    """

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        claims: Cache[ResourceClaim],
        *,
        calls: Calls,
        locks: Mapping[tuple[str, str, str], asyncio.Lock],
        reports: AttachmentReports,
        releases: ReleaseCheck | None,
    ) -> None:
        self._releases = releases
        self._driver = driver
        self._client = client
        self._claims = claims
        self._calls = calls
        self._locks = locks
        self._reports = reports

    async def keep_detaching(self) -> None:
        """Detach the orphans every `check_attachments_seconds`, until canceled."""
        while True:
            await asyncio.sleep(self._driver.check_attachments_seconds)
            await self.detach()

    async def detach(self) -> None:
        """Detach the orphans that exist now; after an error, try again."""
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            try:
                await self._detach_all()
            except DraError as error:
                _log.warning("list of attached devices: %s", error)
                self._reports.count_error("attachments")
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _detach_all(self) -> None:
        method = self._driver.attachments
        name = self._driver.name
        attached = check_attachments(name, await self._calls.call(method), find_definition(method))
        if not attached:
            return
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        if listing.unreadable:
            _log.warning(
                "attached devices were not compared with the claims: claim %s cannot be read",
                ", ".join(sorted(listing.unreadable)),
            )
            self._reports.count_error("attachments")
            return
        claims = {claim.metadata.uid: claim for claim in listing.items}
        orphans = [each for each in attached if not self._refers(claims.get(each.claim_uid), each)]
        tasks = {asyncio.create_task(self._detach(each), name=f"detach {each.device}") for each in orphans}
        try:
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        finally:
            await end(tasks)

    async def _detach(self, orphan: Attachment) -> None:
        async def log(problem: str) -> None:
            _log.warning("device %s of claim UID %s: %s", orphan.device, orphan.claim_uid, problem)

        async with self._locks[device_key(orphan)]:
            claims = (c for c in self._claims.items.values() if c.metadata.uid == orphan.claim_uid)
            if self._refers(next(claims, None), orphan):
                return
            if use := await self._find_use(orphan):
                self._reports.count_error("attachments")
                _log.warning("orphan %s of claim UID %s stays: %s", orphan.device, orphan.claim_uid, use)
                return
            await call_within(
                *(self._calls, self._driver.attach_timeout_seconds, self._driver.detach, orphan),
                about=f" of claim UID {orphan.claim_uid}",
                overdue=log,
            )
        _log.info("detached device %s, to which no claim refers", orphan.device)

    async def _find_use(self, orphan: Attachment) -> str:
        if self._releases is None:
            return ""
        if not orphan.node:
            return "attachments() did not name its node"
        return await self._releases.find_use(orphan)

    def _refers(self, claim: ResourceClaim | None, attachment: Attachment) -> bool:
        """Return whether the device is in any result of the claim's allocation, or in the claim's record."""
        if claim is None:
            return False
        name = self._driver.name
        device = DeviceId(name, attachment.pool, attachment.device, attachment.share_id)
        recorded = map(device_key, read_record(claim, name))
        return device_key(attachment) in recorded or any(result.id == device for result in claim.results)
