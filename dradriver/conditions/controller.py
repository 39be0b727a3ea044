"""The loop of a `BindingDriver`: for each claim, what `todo` says, until nothing is left.

Each claim has a task of its own while there is something to do for it: one that takes minutes holds up no
other. Dies anywhere: what was begun stands in the claims, and the next process goes on from there.
"""

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from dradriver.conditions.claims import binding_claim
from dradriver.conditions.record import Records
from dradriver.conditions.todo import Todo, attachments_of, own_conditions, recorded, todo
from dradriver.conditions.writer import ConditionWriter
from dradriver.driver import (
    AllocatedDevice,
    AllocationGone,
    AttachError,
    Attachment,
    BindingClaim,
    BindingDriver,
)
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube import CLAIMS, Cache, ChangeKind, Client
from dradriver.kube.backoff import Backoff
from dradriver.model.claim import DeviceResult, ResourceClaim
from dradriver.model.device import Device
from dradriver.model.meta import Condition
from dradriver.node.calls import Calls

__all__ = ["BindingController", "Keeper"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.5, 30.0)


class Keeper(Protocol):
    """Who keeps bad devices from new claims."""

    async def keep_away(self, pool: str, device: str) -> None:
        """Taints the device; returns when no claim that does not tolerate it can get it any more."""

    def welcome(self, pool: str, device: str) -> None:
        """The device works: takes its taint away, if it has one."""


class BindingController:
    """Attaches and detaches the devices of a driver: `await run()` until cancelled.

    Args:
        driver: the author's.
        client: the API server; it needs `patch` on claims and on their status (`arbitrary-node`).
        calls: calls the driver.
        device: gives a device as `discover()` last returned it.
        keeper: keeps devices that failed from new claims.
        on_error: is told of each failure, with the name of the method.
    """

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        keeper: Keeper,
        on_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._driver = driver
        self._client = client
        self._calls = calls
        self._device = device
        self._keeper = keeper
        self._on_error = on_error
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._records = Records(client, driver.name, self._claims.apply_written, self._claims.apply_deleted)
        self._holders: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._looked = False
        self._claims.subscribe(self._changed)

    async def run(self) -> None:
        """Works until it is cancelled. What is being attached then is taken up by the next process."""
        async with self._claims:
            try:
                await self._claims.synced()
                await self._look_at_the_hardware()
                for ref in list(self._claims.items):
                    self._serve(ref)
                await asyncio.get_running_loop().create_future()
            finally:
                self._looked = False  # nothing new is begun
                tasks = list(self._tasks.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_at_the_hardware(self) -> None:
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            try:
                await self._detach_strangers()
            except DraError as error:
                _log.warning("looking for what is attached: %s", error)
                self._on_error("attachments")
                await asyncio.sleep(backoff.next())
            else:
                self._looked = True
                return

    def _changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = self._hold(old, held=False)
        after = self._hold(new, held=True)
        claim = new or old
        if claim is None:
            return
        if self._looked:
            self._serve(claim.ref)
        if before - after:  # others may wait for what this one let go of
            for news in self._news.values():
                news.set()

    def _hold(self, claim: ResourceClaim | None, *, held: bool) -> set[tuple[str, str, str]]:
        keys = {_key(each) for each in recorded(claim, self._driver.name)} if claim is not None else set()
        for key in keys:
            users = self._holders[key]
            (users.add if held else users.discard)(claim.metadata.uid if claim else "")
            if not users:
                del self._holders[key]
        return keys

    def _serve(self, ref: str) -> None:
        if news := self._news.get(ref):
            news.set()
            return
        claim = self._claims.items.get(ref)
        if claim is not None and self._concerns_us(claim):
            self._news[ref] = asyncio.Event()
            self._tasks[ref] = asyncio.create_task(self._work(ref), name=f"claim {ref}")

    def _concerns_us(self, claim: ResourceClaim) -> bool:
        return self._todo(claim) != Todo()

    def _todo(self, claim: ResourceClaim) -> Todo:
        return todo(claim, self._driver.name, self._driver.own_conditions)

    async def _work(self, ref: str) -> None:
        backoff = Backoff(*_RETRY_SECONDS)
        try:
            while (claim := self._claims.items.get(ref)) is not None:
                self._news[ref].clear()
                try:
                    if not await self._step(claim):
                        return
                    backoff.reset()
                except DraError as error:
                    _log.warning("claim %s: %s", ref, error)
                    await self._pause(ref, backoff.next())
                except Exception:
                    _log.exception("claim %s: a defect, trying again", ref)
                    await self._pause(ref, backoff.next())
        finally:
            del self._news[ref], self._tasks[ref]

    async def _pause(self, ref: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news[ref].wait()
        except TimeoutError:
            pass

    async def _step(self, claim: ResourceClaim) -> bool:
        """Does the next thing for the claim; whether there was any."""
        due = self._todo(claim)
        if due.detach:
            await _all(self._detach(claim, each) for each in due.detach)
            await self._records.remove(claim, due.detach)
        elif due.record:
            if any(self._others(claim, each) for each in due.record):
                # What was attached for another claim is detached first; then this one is decided on anew.
                await self._news[claim.ref].wait()
            else:
                await self._records.add(claim, due.record)
        elif due.let_go:
            await self._records.remove(claim, ())
        elif due.attach:
            await self._attach_all(claim, due.attach)
        else:
            return False
        return True

    def _others(self, claim: ResourceClaim, attachment: Attachment) -> set[str]:
        """The other claims that have the device in their records, by UID."""
        return self._holders.get(_key(attachment), set()) - {claim.metadata.uid}

    async def _detach(self, claim: ResourceClaim, attachment: Attachment) -> None:
        if self._others(claim, attachment):
            # Only one claim's record has a device at a time; a second one was written by somebody else.
            _log.warning("claim %s: its record names device %s of another claim", claim.ref, attachment.device)
            return
        try:
            await self._calls.call(self._driver.detach, attachment, about=f" of claim {claim.ref}")
        except DraError:
            self._on_error("detach")
            raise

    async def _detach_strangers(self) -> None:
        """What the hardware knows and no claim speaks of, because its record was lost, is detached."""
        name = self._driver.name
        known = await self._calls.call(self._driver.attachments)
        spoken_of = {
            (each.claim_uid, *_key(each))
            for claim in self._claims.items.values()
            for each in (*recorded(claim, name), *attachments_of(claim, name))
        }
        for attachment in sorted(known or ()):
            if (attachment.claim_uid, *_key(attachment)) not in spoken_of:
                await self._calls.call(self._driver.detach, attachment)

    async def _attach_all(self, claim: ResourceClaim, attachments: Iterable[Attachment]) -> None:
        """Attaches side by side until all are done, or the claim does not want one of them any more."""
        results = attachments_of(claim, self._driver.name)
        tasks = [
            asyncio.create_task(self._attach(claim, results[each]), name=f"attach {each.device}")
            for each in attachments
        ]
        try:
            await self._until_done(claim, tasks)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome

    async def _until_done(self, claim: ResourceClaim, tasks: list[asyncio.Task[None]]) -> None:
        news = self._news[claim.ref]
        while any(not task.done() for task in tasks):
            waiting = asyncio.create_task(_hear(news), name="news")
            working = [task for task in tasks if not task.done()]
            try:
                await asyncio.wait([*working, waiting], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            news.clear()
            if not self._still_wanted(claim):
                if not inspect.iscoroutinefunction(self._driver.attach):
                    # A thread can't be stopped, and must have ended before its device is detached.
                    await asyncio.wait(working)
                return

    def _still_wanted(self, claim: ResourceClaim) -> bool:
        current = self._claims.items.get(claim.ref)
        name = self._driver.name
        return (
            current is not None and attachments_of(current, name).keys() == attachments_of(claim, name).keys()
        )

    async def _attach(self, claim: ResourceClaim, result: DeviceResult) -> None:
        writer = ConditionWriter(self._client, self._driver.name, claim, self._claims.apply_written)
        device: AllocatedDevice | None = None
        try:
            told = binding_claim(claim, self._driver, self._device, writer)
            device = next(each for each in told.devices if each.id(self._driver.name) == result.id)
            await self._call_attach(told, device)
            own = own_conditions(result, self._driver.own_conditions)
            await writer.set_all(device, [_told(kind, "Ready", "") for kind in own])
            self._keeper.welcome(result.pool, result.device)
        except AllocationGone:
            return
        except (AttachError, InvalidObjectError) as error:
            await self._failed(writer, result, device, error)

    async def _call_attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        try:
            await self._calls.call(self._driver.attach, claim, device, about=f" of claim {claim}")
        except (AttachError, AllocationGone):
            raise
        except DraError as error:
            raise AttachError(str(error)) from error

    async def _failed(
        self,
        writer: ConditionWriter,
        result: DeviceResult,
        device: AllocatedDevice | None,
        error: AttachError | InvalidObjectError,
    ) -> None:
        self._on_error("attach")
        _log.warning("device %s: %s", result.id, error)
        reason, wanted, bad = "InvalidConfig", "", False
        if isinstance(error, AttachError):
            reason, wanted, bad = error.reason, error.condition, error.device_is_bad
        failures = result.binding_failure_conditions
        kind = wanted if wanted in failures else failures[0]
        if bad:
            await self._keeper.keep_away(result.pool, result.device)
        if device is None:
            device = AllocatedDevice(result.request, result.pool, result.device, result.share_id or "")
        try:
            await writer.set_all(device, [_told(kind, reason, str(error))])
        except AllocationGone:
            return


async def _hear(news: asyncio.Event) -> None:
    await news.wait()


def _told(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message[:32768])


def _key(attachment: Attachment) -> tuple[str, str, str]:
    return attachment.pool, attachment.device, attachment.share_id


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """All to their end, then the first error."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
