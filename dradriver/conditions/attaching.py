"""Attach the devices of a claim, and write the result to the claim's status.

If the process dies before the result is written, the conditions are not True yet, and the next process calls
`attach` again. A failure condition is set last, after the scheduler can no longer allocate the device. Before
`attach` is called, its start is recorded: the conditions are set to False with the reason `Attaching`, which
neither binds the pod nor fails it. If the API server does not store these conditions, `attach` is not called:
its result could not be reported, and the work would never end.

If a device is published by another process, its failure is only reported to that process; see `on_node`.
"""

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Final

from dradriver.aio.tasks import end
from dradriver.conditions.attachment_diff import (
    allocated_attachments,
    allocated_device,
    attachments_of,
    device_key,
    own_conditions,
)
from dradriver.conditions.driver_values import binding_claim
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.time_limits import OverdueError, call_within
from dradriver.conditions.writes.writer import ConditionsDroppedError, ConditionWriter
from dradriver.driver import AllocatedDevice, AllocationGone, AttachError, Attaching, Attachment, BindingClaim
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube import Cache, Client
from dradriver.kube.errors import ApiError
from dradriver.model.core.meta import Condition
from dradriver.model.resource.attachments import is_given_up
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.driver_calls import Calls, is_being_cancelled

__all__ = ["Attacher"]

_log = logging.getLogger(__name__)

_MESSAGE_LENGTH: Final = 32768
"""Maximum length of a condition's message."""


class Attacher:
    """Calls `attach` and reports the result.

    Args:
        driver: the author's driver.
        client: the API server.
        claims: the claims as they are now.
        calls: calls the driver.
        device: returns a device as `discover()` last returned it.
        quarantine: taints failed devices.
        reports: receives errors, and attachments that the driver cannot finish.
        pending: returns the attachments of a claim that are to be attached.

    Attributes:
        permit: the context in which `attach` is called, which the owner may replace. It raises an `AttachError`
            if the device must not be attached, or another `DraError` if the claim must be tried again.
        writer: writes conditions and data.
        locks: by pool, device and share (`device_key`), held while a method of the driver works on it.
    """

    writer: type[ConditionWriter] = ConditionWriter

    def __init__(
        self,
        driver: Attaching,
        client: Client,
        claims: Cache[ResourceClaim],
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        quarantine: Quarantine,
        reports: AttachmentReports,
        pending: Callable[[ResourceClaim], Collection[Attachment]],
    ) -> None:
        self.permit: Callable[[ResourceClaim, Attachment], AbstractAsyncContextManager[None]] = _permit_all
        self.locks: defaultdict[tuple[str, str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pending = pending
        self._abandoned: set[asyncio.Task[None]] = set()
        self._driver = driver
        self._reports = reports
        self._client = client
        self._claims = claims
        self._calls = calls
        self._device = device
        self._quarantine = quarantine

    async def attach_all(
        self, claim: ResourceClaim, attachments: Iterable[Attachment], changed: asyncio.Event
    ) -> None:
        """Attach the devices concurrently; return when all are done, or when the claim's allocation is gone.

        If `attach` is a plain method, it cannot be stopped when the allocation is gone. It continues in the
        background, and its device stays locked until it returns.

        Raises:
            DraError: the result for a device could not be written or read. The claim is tried again.
        """
        results = attachments_of(claim, self._driver.name)
        tasks = [
            asyncio.create_task(self._attach(claim, each, results[each]), name=f"attach {each.device}")
            for each in attachments
        ]
        try:
            await self._wait_until_done(claim, tasks, changed)
        finally:
            owned = [task for task in tasks if task not in self._abandoned]
            for task in owned:
                task.cancel()
            outcomes = await asyncio.gather(*owned, return_exceptions=True)
        with self._report_dropped(claim):
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome

    async def admit(self, claim: ResourceClaim, results: Iterable[DeviceResult]) -> None:
        """Set the conditions of devices with admin access to True; the claim does not wait for these devices.

        Raises:
            DraError: the conditions could not be set. The claim is tried again.
        """
        writer = self._writer(claim)
        for result in results:
            message = "admin access does not wait for the device"
            own = own_conditions(result, self._driver.own_conditions)
            conditions = [_true_condition(kind, "AdminAccess", message) for kind in own]
            try:
                with self._report_dropped(claim):
                    await writer.set_all(allocated_device(result), conditions)
            except AllocationGone:
                return

    @contextmanager
    def _report_dropped(self, claim: ResourceClaim) -> Iterator[None]:
        try:
            yield
        except ConditionsDroppedError as error:
            self._reports.report_dropped(claim, str(error))
            raise

    def _writer(self, claim: ResourceClaim) -> ConditionWriter:
        return self.writer(self._client, self._driver.name, claim, self._claims.apply_written)

    async def contain(self, result: DeviceResult) -> str:
        """Keep new claims from a bad device before its failure is written.

        Returns:
            The type of the condition that must be set instead of one of the device's failure conditions. Empty:
            set the failure condition.
        """
        await self._quarantine.add(result.pool, result.device, "attach-failed")
        return ""

    async def _wait_until_done(
        self, claim: ResourceClaim, tasks: list[asyncio.Task[None]], changed: asyncio.Event
    ) -> None:
        while any(not task.done() for task in tasks):
            waiting = asyncio.create_task(_wait(changed), name="claim changed")
            working = [task for task in tasks if not task.done()]
            try:
                await asyncio.wait([*working, waiting], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            changed.clear()
            if not self._is_wanted(claim):
                if not inspect.iscoroutinefunction(self._driver.attach):
                    for task in working:
                        self._abandon(task)
                return

    def _abandon(self, task: asyncio.Task[None]) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._log_abandoned)

    def _log_abandoned(self, task: asyncio.Task[None]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.warning("%s: %s", task.get_name(), error)

    async def end(self) -> None:
        """Stop waiting for plain `attach` methods that still run in the background."""
        await end(set(self._abandoned))

    def _is_wanted(self, claim: ResourceClaim) -> bool:
        current = self._claims.items.get(claim.ref)
        name = self._driver.name
        return (
            current is not None
            and not is_given_up(current)
            and allocated_attachments(current, name).keys() == allocated_attachments(claim, name).keys()
        )

    async def _attach(self, claim: ResourceClaim, attachment: Attachment, result: DeviceResult) -> None:
        async with self.locks[device_key(attachment)]:
            current = self._claims.items.get(claim.ref)
            if current is not None and attachment in self._pending(current):
                await self._attach_now(claim, attachment, result)

    async def _attach_now(self, claim: ResourceClaim, attachment: Attachment, result: DeviceResult) -> None:
        writer = self._writer(claim)
        device = allocated_device(result)

        async def overdue(problem: str) -> None:
            self._reports.report_stuck("attach", claim, attachment, problem)
            await self._report_failure(writer, result, device, AttachError(problem, reason="AttachTimeout"))

        try:
            given = binding_claim(claim, self._driver, self._device, writer)
            device = next(each for each in given.devices if each.id(self._driver.name) == result.id)
            own = own_conditions(result, self._driver.own_conditions)
            attaching = [Condition(type=kind, status="False", reason="Attaching") for kind in own]
            await writer.set_all(device, attaching, keep=True)
            started = asyncio.get_running_loop().time()
            async with self.permit(claim, attachment):
                await self._call_attach(given, device, overdue)
            seconds = asyncio.get_running_loop().time() - started
            _log.info("attached device %s for claim %s in %.3f s", result.id, claim.ref, seconds)
            await writer.set_all(device, [_true_condition(kind, "Ready", "") for kind in own])
            self._quarantine.remove(result.pool, result.device, "attach-failed")
        except (AllocationGone, OverdueError):
            return
        except (AttachError, InvalidObjectError) as error:
            if is_being_cancelled() or not self._is_wanted(claim):
                return  # the error of an interrupted or abandoned attach is not about the device
            await self._report_failure(writer, result, device, error)
        finally:
            self._reports.clear_stuck("attach", attachment)

    async def _call_attach(
        self, claim: BindingClaim, device: AllocatedDevice, overdue: Callable[[str], Awaitable[None]]
    ) -> None:
        try:
            await call_within(
                *(self._calls, self._driver.attach_timeout_seconds, self._driver.attach, claim, device),
                about=f" of claim {claim}",
                overdue=overdue,
            )
        except (AttachError, AllocationGone, OverdueError, ApiError):
            raise  # an API server that rejects the reports of `attach` is no evidence about the device
        except DraError as error:
            raise AttachError(str(error)) from error

    async def _report_failure(
        self,
        writer: ConditionWriter,
        result: DeviceResult,
        device: AllocatedDevice,
        error: AttachError | InvalidObjectError,
    ) -> None:
        self._reports.count_error("attach")
        _log.warning("device %s: %s", result.id, error)
        reason, condition, is_bad = "InvalidConfig", "", False
        if isinstance(error, AttachError):
            reason, condition, is_bad = error.reason, error.condition, error.device_is_bad
        failures = result.binding_failure_conditions
        kind = condition if condition in failures else failures[0]
        if is_bad:
            kind = await self.contain(result) or kind
        try:
            await writer.set_all(device, [_true_condition(kind, reason, str(error))])
        except AllocationGone:
            return


def _permit_all(_claim: ResourceClaim, _attachment: Attachment) -> AbstractAsyncContextManager[None]:
    return nullcontext()


async def _wait(changed: asyncio.Event) -> None:
    await changed.wait()


def _true_condition(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message[:_MESSAGE_LENGTH])
