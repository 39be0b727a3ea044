"""Detach orphans: attachments that the hardware records, and to which no claim refers.

An orphan remains if a record is lost, or if a change of the hardware takes effect after the request for it was
given up. This can happen at any time, so the hardware is asked again at intervals. After each answer of the
hardware, the claims are listed from the API server, so the list contains every allocation and every record that
existed when the hardware answered. A record that this process adds later is in the cache before `attach` is
called, so the cache is compared too, under the lock of the device. A claim that cannot be read may refer to any
attachment, so nothing is detached then. With `node_releases`, an orphan that its node uses stays until a later
check. If the process dies at any point, the next one asks the hardware again.

Each orphan has a task of its own, which holds the lock of the device until the orphan is detached. So an orphan
that cannot be detached delays only claims that have its device.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from dradriver.aio.tasks import end
from dradriver.conditions.attachment_diff import allocation_time, device_key, is_same_time, read_record
from dradriver.conditions.driver_values import check_attachments
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.time_limits import OverdueError, call_within
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
        quarantine: taints the devices of orphans that cannot be detached.
        reports: counts errors.
        releases: finds the orphans that their nodes use. None: `detach` does not wait for nodes.

    Attributes:
        first_check_seconds: time limit of `wait_checked`.
    """

    first_check_seconds: ClassVar[float] = 30.0

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        claims: Cache[ResourceClaim],
        *,
        calls: Calls,
        locks: Mapping[tuple[str, str, str], asyncio.Lock],
        quarantine: Quarantine,
        reports: AttachmentReports,
        releases: ReleaseCheck | None,
    ) -> None:
        self._releases = releases
        self._driver = driver
        self._client = client
        self._claims = claims
        self._calls = calls
        self._locks = locks
        self._quarantine = quarantine
        self._reports = reports
        self._checked = asyncio.Event()
        self._tasks: dict[Attachment, asyncio.Task[None]] = {}

    async def keep_detaching(self) -> None:
        """Detach the orphans at once and then every `check_attachments_seconds`, until canceled."""
        try:
            while True:
                await self._check()
                self._checked.set()
                await asyncio.sleep(self._driver.check_attachments_seconds)
        finally:
            await end(set(self._tasks.values()))

    async def wait_checked(self) -> None:
        """Wait until the hardware was compared with the claims once; at most `first_check_seconds`.

        After that, each orphan waits for the lock of its device, so an attach of the device that begins later
        comes after the detach.
        """
        try:
            async with asyncio.timeout(self.first_check_seconds):
                await self._checked.wait()
        except TimeoutError:
            _log.warning("attached devices are not compared with the claims yet; attaching begins without that")

    async def _check(self) -> None:
        """Begin to detach the orphans that exist now; after an error, try again."""
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            try:
                orphans = await self._find_orphans()
            except DraError as error:
                _log.warning("list of attached devices: %s", error)
                self._reports.count_error("attachments")
                await asyncio.sleep(backoff.next())
            else:
                return self._begin(orphans)

    def _begin(self, orphans: Iterable[Attachment]) -> None:
        for orphan in orphans:
            if orphan not in self._tasks:
                task = asyncio.create_task(self._detach(orphan), name=f"detach orphan {orphan.device}")
                self._tasks[orphan] = task
                task.add_done_callback(partial(self._end, orphan))

    def _end(self, orphan: Attachment, _task: asyncio.Task[None]) -> None:
        del self._tasks[orphan]

    async def _read_hardware(self) -> list[Attachment]:
        method = self._driver.attachments
        return check_attachments(self._driver.name, await self._calls.call(method), find_definition(method))

    async def _find_orphans(self) -> list[Attachment]:
        attached = await self._read_hardware()
        if not attached:
            return []
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        if listing.unreadable:
            _log.warning(
                "attached devices were not compared with the claims: claim %s cannot be read",
                ", ".join(sorted(listing.unreadable)),
            )
            self._reports.count_error("attachments")
            return []
        claims = {claim.metadata.uid: claim for claim in listing.items}
        return [each for each in attached if not self._refers(claims.get(each.claim_uid), each)]

    async def _detach(self, orphan: Attachment) -> None:
        """Detach an orphan; after an error, try again. A device that cannot be detached is tainted.

        The lock is held between the attempts too: the device is never attached before the orphan is detached.
        """
        backoff = Backoff(*RETRY_SECONDS)
        async with self._locks[device_key(orphan)]:
            while True:
                try:
                    return await self._detach_once(orphan)
                except DraError as error:
                    _log.debug("orphan %s is tried again: %s", orphan.device, error)
                except Exception:
                    _log.exception("orphan %s: unexpected error, retrying", orphan.device)
                await asyncio.sleep(backoff.next())

    async def _detach_once(self, orphan: Attachment) -> None:
        claims = (c for c in self._claims.items.values() if c.metadata.uid == orphan.claim_uid)
        claim = next(claims, None)
        if self._refers(claim, orphan):
            return
        if self._find_held(claim, orphan) and orphan not in await self._read_hardware():
            return  # it was detached, and the device is attached for the next allocation of the claim
        if use := await self._find_use(orphan):
            self._reports.count_error("attachments")
            _log.warning("orphan %s of claim UID %s stays: %s", orphan.device, orphan.claim_uid, use)
            return

        async def taint(problem: str) -> None:
            _log.warning("orphan %s of claim UID %s: %s", orphan.device, orphan.claim_uid, problem)
            self._quarantine.taint(orphan.pool, orphan.device, "detach-failed")

        try:
            await call_within(
                *(self._calls, self._driver.attach_timeout_seconds, self._driver.detach, orphan),
                about=f" of claim UID {orphan.claim_uid}",
                overdue=taint,
            )
        except DraError as error:
            self._reports.count_error("detach")
            if not isinstance(error, OverdueError):
                await taint(str(error))
            raise
        self._quarantine.remove(orphan.pool, orphan.device, "detach-failed")
        _log.info("detached device %s, to which no claim refers", orphan.device)

    async def _find_use(self, orphan: Attachment) -> str:
        if self._releases is None:
            return ""
        if not orphan.node:
            return "attachments() did not name its node"
        return await self._releases.find_use(orphan)

    def _refers(self, claim: ResourceClaim | None, attachment: Attachment) -> bool:
        """Return whether this attachment is in the claim's allocation, or in the claim's record.

        An attachment of another allocation of the device is a different one, if the hardware knows the time.
        """
        return any(
            is_same_time(attachment.allocated, each.allocated) for each in self._find_held(claim, attachment)
        )

    def _find_held(self, claim: ResourceClaim | None, attachment: Attachment) -> list[Attachment]:
        """Return the attachments that the claim has, or has recorded, of the attachment's device."""
        if claim is None:
            return []
        name = self._driver.name
        device = DeviceId(name, attachment.pool, attachment.device, attachment.share_id)
        held = [each for each in read_record(claim, name) if device_key(each) == device_key(attachment)]
        if any(result.id == device for result in claim.results):
            held.append(replace(attachment, allocated=allocation_time(claim)))
        return held
