"""Attach the devices of a claim, and write the result to the claim's status.

If the process dies at any point, the conditions are not True, and the next process calls `attach` again. A
failure condition is set last, after the scheduler can no longer allocate the device. Before `attach` is called,
its start is recorded: the conditions are set to False with the reason `Attaching`, which neither binds the pod
nor fails it. If the API server does not store these conditions, `attach` is not called: its result could not be
reported, and the work would never end.
"""

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from dradriver.aio.tasks import end
from dradriver.conditions.attachment_diff import attachments_of, given_up, own_conditions, place_of
from dradriver.conditions.claims import binding_claim
from dradriver.conditions.quarantine.bad_devices import Why
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.time_limits import OverdueError, call_within
from dradriver.conditions.writes.writer import ConditionsDroppedError, ConditionWriter
from dradriver.driver import (
    AllocatedDevice,
    AllocationGone,
    AttachError,
    Attaching,
    Attachment,
    BindingClaim,
)
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube import Cache, Client
from dradriver.kube.errors import ApiError
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.driver_calls import Calls, is_being_cancelled

__all__ = ["Attacher", "Keeper"]

_log = logging.getLogger(__name__)

_MESSAGE_LENGTH: Final = 32768
"""Maximum length of a condition's message."""


class Keeper(Protocol):
    """Keeps bad devices from new claims."""

    async def keep_away(self, pool: str, device: str, why: Why) -> None:
        """Taint the device; returns when only claims that tolerate the taint can get it."""

    def welcome(self, pool: str, device: str, why: Why) -> None:
        """Remove this taint, if present, because the device works."""


class Attacher:
    """Calls `attach` and reports the result.

    Args:
        driver: the author's driver.
        client: the API server.
        claims: the claims as they are now.
        calls: calls the driver.
        device: returns a device as `discover()` last returned it.
        keeper: keeps failed devices from new claims.
        reports: receives errors, and attachments that the driver cannot finish.
        due: returns the attachments of a claim that are to be attached.

    Attributes:
        locks: by place of a device, held while a method of the driver works on it.
    """

    def __init__(
        self,
        driver: Attaching,
        client: Client,
        claims: Cache[ResourceClaim],
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        keeper: Keeper,
        reports: AttachmentReports,
        due: Callable[[ResourceClaim], Collection[Attachment]],
    ) -> None:
        self.locks: defaultdict[tuple[str, str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._due = due
        self._left: set[asyncio.Task[None]] = set()
        self._driver = driver
        self._reports = reports
        self._client = client
        self._claims = claims
        self._calls = calls
        self._device = device
        self._keeper = keeper

    async def attach_all(
        self, claim: ResourceClaim, attachments: Iterable[Attachment], news: asyncio.Event
    ) -> None:
        """Attach concurrently until all are done, or the claim no longer wants one of them.

        A plain method cannot be stopped: it then continues alone, and keeps its device until it has ended.

        Raises:
            DraError: the result for a device could not be written or read. The claim is tried again.
        """
        results = attachments_of(claim, self._driver.name)
        tasks = [
            asyncio.create_task(self._attach(claim, each, results[each]), name=f"attach {each.device}")
            for each in attachments
        ]
        try:
            await self._until_done(claim, tasks, news)
        finally:
            ours = [task for task in tasks if task not in self._left]
            for task in ours:
                task.cancel()
            ended = await asyncio.gather(*ours, return_exceptions=True)
        with self._told_if_dropped(claim):
            for outcome in ended:
                if isinstance(outcome, Exception):
                    raise outcome

    async def admit(self, claim: ResourceClaim, results: Iterable[DeviceResult]) -> None:
        """Set the conditions of devices with admin access; the claim waits for no device.

        Raises:
            DraError: they could not be set. The claim is tried again.
        """
        writer = self._writer(claim)
        for result in results:
            own = own_conditions(result, self._driver.own_conditions)
            message = "admin access does not wait for the device"
            try:
                with self._told_if_dropped(claim):
                    await writer.set_all(_named(result), [_told(kind, "AdminAccess", message) for kind in own])
            except AllocationGone:
                return

    @contextmanager
    def _told_if_dropped(self, claim: ResourceClaim) -> Iterator[None]:
        try:
            yield
        except ConditionsDroppedError as error:
            self._reports.dropped(claim, str(error))
            raise

    def _writer(self, claim: ResourceClaim) -> ConditionWriter:
        return ConditionWriter(self._client, self._driver.name, claim, self._claims.apply_written)

    async def _until_done(
        self, claim: ResourceClaim, tasks: list[asyncio.Task[None]], news: asyncio.Event
    ) -> None:
        while any(not task.done() for task in tasks):
            waiting = asyncio.create_task(_hear(news), name="news")
            working = [task for task in tasks if not task.done()]
            try:
                await asyncio.wait([*working, waiting], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            news.clear()
            if not self._still_wanted(claim):
                if not inspect.iscoroutinefunction(self._driver.attach):
                    for task in working:
                        self._leave(task)
                return

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._left.add(task)
        task.add_done_callback(self._left_ended)

    def _left_ended(self, task: asyncio.Task[None]) -> None:
        self._left.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.warning("%s: %s", task.get_name(), error)

    async def end(self) -> None:
        """Abandon plain methods that still run."""
        await end(set(self._left))

    def _still_wanted(self, claim: ResourceClaim) -> bool:
        current = self._claims.items.get(claim.ref)
        name = self._driver.name
        return (
            current is not None
            and not given_up(current)
            and attachments_of(current, name).keys() == attachments_of(claim, name).keys()
        )

    async def _attach(self, claim: ResourceClaim, attachment: Attachment, result: DeviceResult) -> None:
        async with self.locks[place_of(attachment)]:
            current = self._claims.items.get(claim.ref)
            if current is not None and attachment in self._due(current):
                await self._attach_now(claim, attachment, result)

    async def _attach_now(self, claim: ResourceClaim, attachment: Attachment, result: DeviceResult) -> None:
        writer = self._writer(claim)
        device = _named(result)

        async def overdue(problem: str) -> None:
            self._reports.stuck("attach", claim, attachment, problem)
            await self._failed(writer, result, device, AttachError(problem, reason="AttachTimeout"))

        try:
            told = binding_claim(claim, self._driver, self._device, writer)
            device = next(each for each in told.devices if each.id(self._driver.name) == result.id)
            own = own_conditions(result, self._driver.own_conditions)
            begun = [Condition(type=kind, status="False", reason="Attaching") for kind in own]
            await writer.set_all(device, begun, keep=True)
            started = asyncio.get_running_loop().time()
            await self._call_attach(told, device, overdue)
            seconds = asyncio.get_running_loop().time() - started
            _log.info("attached device %s for claim %s in %.3f s", result.id, claim.ref, seconds)
            await writer.set_all(device, [_told(kind, "Ready", "") for kind in own])
            self._keeper.welcome(result.pool, result.device, "attach-failed")
        except (AllocationGone, OverdueError):
            return
        except (AttachError, InvalidObjectError) as error:
            if is_being_cancelled():
                return  # the error of an interrupted attach is not about the device
            await self._failed(writer, result, device, error)
        finally:
            self._reports.ended("attach", attachment)

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

    async def _failed(
        self,
        writer: ConditionWriter,
        result: DeviceResult,
        device: AllocatedDevice,
        error: AttachError | InvalidObjectError,
    ) -> None:
        self._reports.error("attach")
        _log.warning("device %s: %s", result.id, error)
        reason, wanted, bad = "InvalidConfig", "", False
        if isinstance(error, AttachError):
            reason, wanted, bad = error.reason, error.condition, error.device_is_bad
        failures = result.binding_failure_conditions
        kind = wanted if wanted in failures else failures[0]
        if bad:
            await self._keeper.keep_away(result.pool, result.device, "attach-failed")
        try:
            await writer.set_all(device, [_told(kind, reason, str(error))])
        except AllocationGone:
            return


def _named(result: DeviceResult) -> AllocatedDevice:
    """Return the device with the data of the allocation only."""
    return AllocatedDevice(result.request, result.pool, result.device, result.share_id or "")


async def _hear(news: asyncio.Event) -> None:
    await news.wait()


def _told(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message[:_MESSAGE_LENGTH])
