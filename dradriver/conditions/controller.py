"""The loop of a `BindingDriver`: for each claim, execute `attachment_diff` until no work is left.

A claim with work has up to three tasks of its own: one attaches, one detaches, and one handles failures that
its node reports, and decides whether its node may prepare (`declared`). A claim that takes minutes delays no
other, and a device that cannot be detached delays no device that can be attached. If the process dies at any
point, the started work is recorded in the claims, and the next process continues.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from dradriver.conditions.attaching import Attacher
from dradriver.conditions.attachment_diff import (
    AttachmentDiff,
    allocated_device,
    attachment_diff,
    device_key,
    read_record,
    record_key,
)
from dradriver.conditions.declared import DeclaredConditions, find_decisions
from dradriver.conditions.node_failures import NodeFailures
from dradriver.conditions.orphans import OrphanCheck
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.conditions.releases.waits import ReleaseWaits
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.time_limits import OverdueError, call_within
from dradriver.conditions.writes.record import AttachmentRecords
from dradriver.conditions.writes.writer import ConditionWriter
from dradriver.driver import Attachment, BindingDriver
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, PODS, Cache, ChangeKind, Client, NotFound
from dradriver.kube.object_tasks import ObjectTasks, pause
from dradriver.model.core.meta import Condition
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceId, DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.driver_calls import Calls

__all__ = ["BindingController", "has_running_pod"]

_log = logging.getLogger(__name__)

_POD_CHECK_SECONDS: Final = 30.0
"""Interval of checks of the pods that run with a given-up claim, in case its reservation is never ended."""


class BindingController:
    """Attaches and detaches the devices of a driver: `await run()` works until it is canceled.

    Args:
        driver: the author's driver.
        client: the API server. It needs `list`, `watch` and `patch` on claims, `patch` on their status
            (`arbitrary-node`), and `get` on pods. With `node_releases`, it needs the rights of `ReleaseCheck`.
        calls: calls the driver.
        device: returns a device as `discover()` last returned it.
        quarantine: taints failed devices.
        reports: receives errors, and attachments that the driver cannot finish.
    """

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        quarantine: Quarantine,
        reports: AttachmentReports,
    ) -> None:
        self._driver = driver
        self._client = client
        self._quarantine = quarantine
        self._reports = reports
        self._calls = calls
        self._declared = DeclaredConditions(driver.name, device)
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._records = AttachmentRecords(
            client, driver.name, self._claims.apply_written, self._claims.apply_deleted
        )
        self._releases = ReleaseCheck(client, driver.name) if driver.node_releases else None
        self._waits = ReleaseWaits(self._releases, reports, self._taint) if self._releases else None
        self._attacher = Attacher(
            *(driver, client, self._claims),
            calls=calls,
            device=device,
            quarantine=quarantine,
            reports=reports,
            pending=lambda claim: self._diff(claim).attach,
        )
        if self._releases is not None:
            self._attacher.permit = self._permit
        self._node_failures = NodeFailures(
            *(driver, client, self._claims),
            quarantine=quarantine,
            locks=self._attacher.locks,
            pending=lambda claim: self._diff(claim).fail,
            fill=self._declared.fill,
        )
        self._orphans = OrphanCheck(
            *(driver, client, self._claims),
            calls=calls,
            locks=self._attacher.locks,
            quarantine=quarantine,
            reports=reports,
            releases=self._releases,
        )
        self._holders: defaultdict[tuple[str, str, str], set[Attachment]] = defaultdict(set)
        self._attaching = ObjectTasks("claim", self._claims.items.get, self._needs_attach, self._attach_step)
        self._detaching = ObjectTasks("claim", self._claims.items.get, self._needs_detach, self._detach_step)
        self._failing = ObjectTasks("claim", self._claims.items.get, self._needs_decision, self._fail_step)
        self._serving = False
        self._claims.subscribe(self._changed)

    async def run(self) -> None:
        """Work until canceled; the next process continues unfinished attachments."""
        async with self._claims:
            try:
                await self._claims.wait_synced()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._orphans.keep_detaching(), name="orphans")
                    await self._orphans.wait_checked()
                    self._serving = True
                    self.serve_all()
            finally:
                self._serving = False  # no new work begins
                await asyncio.gather(self._attaching.end(), self._detaching.end(), self._failing.end())
                await self._attacher.end()

    def serve_all(self) -> None:
        """Look at all claims again, because `discover()` returned other conditions of devices."""
        if self._serving:
            for ref in list(self._claims.items):
                self._serve(ref)

    def _serve(self, ref: str) -> None:
        self._detaching.serve(ref)
        self._attaching.serve(ref)
        self._failing.serve(ref)

    def _changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = self._update_holders(old, held=False)
        after = self._update_holders(new, held=True)
        claim = new or old
        if claim is None:
            return
        if self._serving:
            self._serve(claim.ref)
        if before - after:  # others may wait for a device that this one released
            self._attaching.wake_all()
        for each in before - after:
            self._reports.clear_stuck("detach", each)
            if self._waits is not None:
                self._waits.forget(each)

    def _update_holders(self, claim: ResourceClaim | None, *, held: bool) -> set[Attachment]:
        attachments = set(read_record(claim, self._driver.name)) if claim is not None else set()
        for each in attachments:
            holders = self._holders[device_key(each)]
            (holders.add if held else holders.discard)(each)
            if not holders:
                del self._holders[device_key(each)]
        return attachments

    def _diff(self, claim: ResourceClaim, *, unused: bool = False) -> AttachmentDiff:
        filled = self._declared.fill(claim)
        return attachment_diff(filled, self._driver.name, self._driver.own_conditions, unused=unused)

    def _decisions(self, claim: ResourceClaim) -> list[tuple[DeviceResult, list[Condition]]]:
        return find_decisions(self._declared.fill(claim), self._driver.name)

    def _needs_attach(self, claim: ResourceClaim) -> bool:
        diff = self._diff(claim)
        return bool(diff.admin_access or diff.record or diff.attach)

    def _needs_detach(self, claim: ResourceClaim) -> bool:
        diff = self._diff(claim)
        return bool(diff.detach) or diff.remove_finalizer or diff.check_pods

    def _needs_decision(self, claim: ResourceClaim) -> bool:
        return bool(self._diff(claim).fail or self._decisions(claim))

    async def _attach_step(self, claim: ResourceClaim, changed: asyncio.Event) -> bool:
        diff = self._diff(claim)
        if diff.admin_access:
            await self._attacher.admit(claim, diff.admin_access)
        elif free := [each for each in diff.record if not self._other_holders(each)]:
            await self._records.add(claim, free)
        elif diff.attach:
            await self._attacher.attach_all(self._declared.fill(claim), diff.attach, changed)
        elif diff.record:
            await changed.wait()  # until another claim, or an earlier allocation of this one, is detached
        else:
            return False
        return True

    async def _detach_step(self, claim: ResourceClaim, changed: asyncio.Event) -> bool:
        diff, unused = self._diff(claim), False
        if diff.check_pods:
            if await has_running_pod(self._client, claim):
                await pause(changed, _POD_CHECK_SECONDS)
                return True
            diff, unused = self._diff(claim, unused=True), True
        if diff.detach:
            await _await_all(self._detach(claim, each, unused=unused) for each in diff.detach)
            await self._wait_for_nodes(claim, changed, diff.detach, unused=unused)
        elif diff.remove_finalizer:
            await self._records.remove(claim, ())
        else:
            return False
        return True

    async def _fail_step(self, claim: ResourceClaim, _changed: asyncio.Event) -> bool:
        if fail := self._diff(claim).fail:
            await _await_all(self._node_failures.take_over(claim, each) for each in fail)
        elif decisions := self._decisions(claim):
            writer = ConditionWriter(self._client, self._driver.name, claim, self._claims.apply_written)
            for result, conditions in decisions:
                await writer.set_all(allocated_device(result), conditions, keep=True)
        else:
            return False
        return True

    async def _wait_for_nodes(
        self, claim: ResourceClaim, changed: asyncio.Event, detach: Iterable[Attachment], *, unused: bool
    ) -> None:
        """Wait until the next check of the attachments that their nodes have not released."""
        current = self._claims.items.get(claim.ref)
        if self._waits is None or current is None:
            return
        left = set(self._diff(current, unused=unused).detach) & set(detach)
        if left:
            await pause(changed, min(map(self._waits.pause, left)))

    @asynccontextmanager
    async def _permit(self, claim: ResourceClaim, attachment: Attachment) -> AsyncIterator[None]:
        if self._releases is not None:
            await self._releases.check_node(claim, attachment)
        yield

    def _taint(self, attachment: Attachment) -> None:
        self._quarantine.taint(attachment.pool, attachment.device, "detach-failed")

    def _other_holders(self, attachment: Attachment) -> set[Attachment]:
        """Return the other recorded attachments of the attachment's device."""
        return self._holders.get(device_key(attachment), set()) - {attachment}

    async def _detach(self, claim: ResourceClaim, attachment: Attachment, *, unused: bool) -> None:
        """Detach a device; if the process dies before the record is written, `detach` is called once more."""
        async with self._attacher.locks[device_key(attachment)]:  # an interrupted `attach` has ended
            current = await self._read(claim)
            same = current.metadata.uid == claim.metadata.uid
            if same and attachment not in self._diff(current, unused=unused).detach:
                if self._waits is not None:
                    self._waits.forget(attachment)
                return  # allocated again within the same second, and attached
            if any(each.claim_uid != attachment.claim_uid for each in self._other_holders(attachment)):
                # Only one claim's record has a device at a time. A second record was written by another
                # component.
                _log.warning(
                    "claim %s: annotation %s: device %s belongs to another claim",
                    *(claim.ref, record_key(self._driver.name), attachment.device),
                )
            else:
                if self._waits is not None and not await self._waits.is_released(current, attachment):
                    return
                await self._call_detach(claim, attachment)
            await self._records.remove(claim, [attachment])

    async def _read(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim as it is now, or as it was last; with `node_releases`, from the API server."""
        if self._waits is None:
            return self._claims.items.get(claim.ref, claim)
        meta = claim.metadata
        try:
            return await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound:
            return claim

    async def _call_detach(self, claim: ResourceClaim, attachment: Attachment) -> None:
        """Call `detach`; a device that cannot be detached is unusable, and is quarantined."""

        async def report(problem: str) -> None:
            self._reports.report_stuck("detach", claim, attachment, problem)
            self._taint(attachment)

        try:
            await call_within(
                *(self._calls, self._driver.attach_timeout_seconds, self._driver.detach, attachment),
                about=f" of claim {claim.ref}",
                overdue=report,
            )
        except DraError as error:
            self._reports.count_error("detach")
            if not isinstance(error, OverdueError):
                await report(str(error))
            raise
        self._reports.clear_stuck("detach", attachment)
        self._quarantine.remove(attachment.pool, attachment.device, "detach-failed")
        device = DeviceId(self._driver.name, attachment.pool, attachment.device)
        _log.info("detached device %s of claim %s", device, claim.ref)


async def _await_all(work: Iterable[Awaitable[None]]) -> None:
    """Wait until all of the awaitables have ended, then raise the first error, if any."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def has_running_pod(client: Client, claim: ResourceClaim) -> bool:
    """Read each pod in `status.reservedFor`, and return whether one has a node and is unfinished.

    The pods are read from the API server, because a cache may be stale. The claim may come from a cache: once a
    claim is being deleted, its `status.reservedFor` can only shrink, so a cached claim lists at least every
    current consumer. A consumer that is not a pod counts as a running pod.

    Args:
        client: the API server.
        claim: a claim that is being deleted.

    Raises:
        ApiError: the API server did not answer, or rejected the request.
    """
    for consumer in claim.status.reserved_for:
        if consumer.resource != "pods" or consumer.api_group:
            return True
        try:
            pod = await client.get(PODS, consumer.name, claim.metadata.namespace, into=Pod)
        except NotFound:
            continue
        if pod.metadata.uid == consumer.uid and pod.spec.node_name and not pod.finished:
            return True
    return False
