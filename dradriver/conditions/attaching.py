"""Attaches the devices of a claim and says in its status what came of it.

Dies anywhere: the conditions are not set, and the next process calls `attach` again. A failure condition is set
last, when the device is out of the scheduler's reach.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from dradriver.conditions.claims import binding_claim
from dradriver.conditions.todo import attachments_of, own_conditions
from dradriver.conditions.writer import ConditionWriter
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
from dradriver.model.claim import DeviceResult, ResourceClaim
from dradriver.model.device import Device
from dradriver.model.meta import Condition
from dradriver.node.calls import Calls, is_being_cancelled

__all__ = ["Attacher", "Keeper"]

_log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Who keeps bad devices from new claims."""

    async def keep_away(self, pool: str, device: str) -> None:
        """Taints the device; returns when no claim that does not tolerate it can get it any more."""

    def welcome(self, pool: str, device: str) -> None:
        """The device works: takes its taint away, if it has one."""


class Attacher:
    """Calls `attach` and tells.

    Args:
        driver: the author's.
        client: the API server.
        claims: the claims as they are now.
        calls: calls the driver.
        device: gives a device as `discover()` last returned it.
        keeper: keeps devices that failed from new claims.
        on_error: is told of each failure, with the name of the method.
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
        on_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._driver = driver
        self._client = client
        self._claims = claims
        self._calls = calls
        self._device = device
        self._keeper = keeper
        self._on_error = on_error

    async def attach_all(
        self, claim: ResourceClaim, attachments: Iterable[Attachment], news: asyncio.Event
    ) -> None:
        """Attaches side by side until all are done, or the claim does not want one of them any more."""
        results = attachments_of(claim, self._driver.name)
        tasks = [
            asyncio.create_task(self._attach(claim, results[each]), name=f"attach {each.device}")
            for each in attachments
        ]
        try:
            await self._until_done(claim, tasks, news)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome

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
                    # A thread can't be stopped, and must have ended before its device is let go.
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
            started = asyncio.get_running_loop().time()
            await self._call_attach(told, device)
            seconds = asyncio.get_running_loop().time() - started
            _log.info("attached device %s for claim %s in %.3f s", result.id, claim.ref, seconds)
            own = own_conditions(result, self._driver.own_conditions)
            await writer.set_all(device, [_told(kind, "Ready", "") for kind in own])
            self._keeper.welcome(result.pool, result.device)
        except AllocationGone:
            return
        except (AttachError, InvalidObjectError) as error:
            if is_being_cancelled():
                return  # what an attach says that was cut off is no word about the device
            await self._failed(writer, result, device, error)

    async def _call_attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        try:
            await self._calls.call(self._driver.attach, claim, device, about=f" of claim {claim}")
        except (AttachError, AllocationGone, ApiError):
            raise  # an API server that does not take what `attach` tells says nothing of the device
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
