"""The loop of a `BindingDriver`: for each claim, execute `attachment_diff` until no work is left.

A claim with work has two tasks of its own, one that attaches and one that detaches. A claim that takes minutes
delays no other, and a device that cannot be detached delays no device that can be attached. If the process dies
at any point, the started work is recorded in the claims, and the next process continues.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from dradriver.conditions.answers import listed_attachments
from dradriver.conditions.attaching import Attacher, Keeper
from dradriver.conditions.attachment_diff import (
    AttachmentDiff,
    attachment_diff,
    attachments_of,
    place_of,
    recorded,
)
from dradriver.conditions.claim_tasks import RETRY_SECONDS, ClaimTasks, pause
from dradriver.conditions.pods import a_pod_runs
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.time_limits import OverdueError, call_within
from dradriver.conditions.writes.record import AttachmentRecords
from dradriver.driver import Attachment, BindingDriver
from dradriver.driver.code_places import defined_at
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Cache, ChangeKind, Client
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.claim import DeviceId, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.driver_calls import Calls

__all__ = ["BindingController"]

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 30.0
"""Interval of checks of the pods that run with a given-up claim, in case its reservation is never ended."""


class BindingController:
    """Attaches and detaches the devices of a driver: `await run()` until canceled.

    Args:
        driver: the author's driver.
        client: the API server. It needs `patch` on claims and on their status (`arbitrary-node`), and `get` on
            pods.
        calls: calls the driver.
        device: returns a device as `discover()` last returned it.
        keeper: keeps failed devices from new claims.
        reports: receives errors, and attachments that the driver cannot finish.
    """

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        keeper: Keeper,
        reports: AttachmentReports,
    ) -> None:
        self._driver = driver
        self._client = client
        self._keeper = keeper
        self._reports = reports
        self._calls = calls
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._records = AttachmentRecords(
            client, driver.name, self._claims.apply_written, self._claims.apply_deleted
        )
        self._attacher = Attacher(
            *(driver, client, self._claims),
            calls=calls,
            device=device,
            keeper=keeper,
            reports=reports,
            due=lambda claim: self._todo(claim).attach,
        )
        self._holders: defaultdict[tuple[str, str, str], set[Attachment]] = defaultdict(set)
        self._attaching = ClaimTasks(self._claims.items, self._has_to_attach, self._attach_step)
        self._detaching = ClaimTasks(self._claims.items, self._has_to_detach, self._detach_step)
        self._looked = False
        self._claims.subscribe(self._changed)

    async def run(self) -> None:
        """Work until canceled; the next process continues unfinished attachments."""
        async with self._claims:
            try:
                await self._claims.synced()
                await self._look_at_the_hardware()
                for ref in list(self._claims.items):
                    self._serve(ref)
                await asyncio.get_running_loop().create_future()
            finally:
                self._looked = False  # no new work begins
                await asyncio.gather(self._attaching.end(), self._detaching.end())
                await self._attacher.end()

    async def _look_at_the_hardware(self) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            try:
                await self._detach_strangers()
            except DraError as error:
                _log.warning("looking for what is attached: %s", error)
                self._reports.error("attachments")
                await asyncio.sleep(backoff.next())
            else:
                self._looked = True
                return

    def _serve(self, ref: str) -> None:
        self._detaching.serve(ref)
        self._attaching.serve(ref)

    def _changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = self._hold(old, held=False)
        after = self._hold(new, held=True)
        claim = new or old
        if claim is None:
            return
        if self._looked:
            self._serve(claim.ref)
        if before - after:  # others may wait for a device that this one released
            self._attaching.nudge()
        for each in before - after:
            self._reports.ended("detach", each)

    def _hold(self, claim: ResourceClaim | None, *, held: bool) -> set[Attachment]:
        attachments = set(recorded(claim, self._driver.name)) if claim is not None else set()
        for each in attachments:
            holders = self._holders[place_of(each)]
            (holders.add if held else holders.discard)(each)
            if not holders:
                del self._holders[place_of(each)]
        return attachments

    def _todo(self, claim: ResourceClaim, *, unused: bool = False) -> AttachmentDiff:
        return attachment_diff(claim, self._driver.name, self._driver.own_conditions, unused=unused)

    def _has_to_attach(self, claim: ResourceClaim) -> bool:
        due = self._todo(claim)
        return bool(due.admit or due.record or due.attach)

    def _has_to_detach(self, claim: ResourceClaim) -> bool:
        due = self._todo(claim)
        return bool(due.detach) or due.let_go or due.look_up

    async def _attach_step(self, claim: ResourceClaim, news: asyncio.Event) -> bool:
        due = self._todo(claim)
        if due.admit:
            await self._attacher.admit(claim, due.admit)
        elif free := [each for each in due.record if not self._others(each)]:
            await self._records.add(claim, free)
        elif due.attach:
            await self._attacher.attach_all(claim, due.attach, news)
        elif due.record:
            await news.wait()  # until another claim, or an earlier allocation of this one, is detached
        else:
            return False
        return True

    async def _detach_step(self, claim: ResourceClaim, news: asyncio.Event) -> bool:
        due, unused = self._todo(claim), False
        if due.look_up:
            if await a_pod_runs(self._client, claim):
                await pause(news, _LOOK_SECONDS)
                return True
            due, unused = self._todo(claim, unused=True), True
        if due.detach:
            await _all(self._detach(claim, each, unused=unused) for each in due.detach)
        elif due.let_go:
            await self._records.remove(claim, ())
        else:
            return False
        return True

    def _others(self, attachment: Attachment) -> set[Attachment]:
        """Return the other recorded attachments of this device."""
        return self._holders.get(place_of(attachment), set()) - {attachment}

    async def _detach(self, claim: ResourceClaim, attachment: Attachment, *, unused: bool) -> None:
        """Detach a device; if the process dies before the record is written, `detach` is called once more."""
        async with self._attacher.locks[place_of(attachment)]:  # an interrupted `attach` has ended
            current = self._claims.items.get(claim.ref, claim)
            same = current.metadata.uid == claim.metadata.uid
            if same and attachment not in self._todo(current, unused=unused).detach:
                return  # allocated again within the same second, and attached
            if any(each.claim_uid != attachment.claim_uid for each in self._others(attachment)):
                # Only one claim's record has a device at a time. A second record was written by another
                # component.
                _log.warning(
                    "claim %s: its record names device %s of another claim", claim.ref, attachment.device
                )
            else:
                await self._call_detach(claim, attachment)
            await self._records.remove(claim, [attachment])

    async def _call_detach(self, claim: ResourceClaim, attachment: Attachment) -> None:
        """Call `detach`; a device that cannot be detached is unusable, and is kept from new claims."""

        async def report(problem: str) -> None:
            self._reports.stuck("detach", claim, attachment, problem)
            await self._keeper.keep_away(attachment.pool, attachment.device, "detach-failed")

        try:
            await call_within(
                *(self._calls, self._driver.attach_timeout_seconds, self._driver.detach, attachment),
                about=f" of claim {claim.ref}",
                overdue=report,
            )
        except DraError as error:
            self._reports.error("detach")
            if not isinstance(error, OverdueError):
                await report(str(error))
            raise
        self._reports.ended("detach", attachment)
        self._keeper.welcome(attachment.pool, attachment.device, "detach-failed")
        device = DeviceId(self._driver.name, attachment.pool, attachment.device)
        _log.info("detached device %s of claim %s", device, claim.ref)

    async def _detach_strangers(self) -> None:
        """Detach the devices that the hardware reports and no claim records, because the record was lost."""
        name = self._driver.name
        method = self._driver.attachments
        known = listed_attachments(name, await self._calls.call(method), defined_at(method))
        spoken_of = {
            (each.claim_uid, *place_of(each))
            for claim in self._claims.items.values()
            for each in (*recorded(claim, name), *attachments_of(claim, name))
        }
        for attachment in known:
            if (attachment.claim_uid, *place_of(attachment)) not in spoken_of:
                await self._calls.call(self._driver.detach, attachment)


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """Await all to their end, then raise the first error."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
