"""Makes the attempts to publish one pool, waits between them, and keeps the pool's status.

An attempt has these steps. `features.fallback` decides which pool the server's feature gates allow.
`holds.pin_devices` removes the changes that must wait for claims. `layout` and `plan` compute the writes, and
`writer` executes them. If the process dies during an attempt, the next process starts from the slices that it
finds on the server.
"""

import asyncio
import logging
import time
from collections import deque
from dataclasses import replace
from typing import Final

from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSliceSpec
from dradriver.publish.context import PublishContext
from dradriver.publish.features.dropped_fields import TAINTS, fields_of, keeps_claims_away
from dradriver.publish.features.fallback import FallbackChooser
from dradriver.publish.holds.pin_devices import pin_devices
from dradriver.publish.holds.published_counters import current_slices
from dradriver.publish.layout import layout, refusals
from dradriver.publish.plan import Delete, plan
from dradriver.publish.status import PoolDecision, PoolState, PoolStatus
from dradriver.publish.writer import SliceWriter

__all__ = ["PoolWorker"]

_log = logging.getLogger(__name__)

_DEBOUNCE_SECONDS: Final = 0.02
"""Wait before a repair, so that one repair handles many slices that are deleted together."""
_REPAIR_BURST: Final = 100
_REPAIR_WINDOW_SECONDS: Final = 60.0
_REPAIR_SLOW_SECONDS: Final = 5.0
"""Wait before a repair if repairs are frequent, because another writer also writes this pool."""

_HELD_SECONDS: Final = (1.0, 15.0)
"""First and longest wait before the claims that hold devices are looked up again."""

_LEVELS: Final = dict.fromkeys(PoolState, logging.WARNING) | {
    PoolState.PUBLISHED: logging.INFO,
    PoolState.REMOVED: logging.INFO,
    PoolState.REFUSED: logging.ERROR,
}
"""The log level of each state."""

_LONGEST_PAUSE_SECONDS: Final = 60.0
"""Maximum seconds of `Retry-After` that the worker obeys."""


class PoolWorker:
    """Keeps one pool published. It runs as one task until the pool is neither wanted nor published.

    Args:
        name: the pool's name.
        context: the values that the publisher's pools share.

    Attributes:
        status: the pool's status.
        is_working: whether an attempt is in progress.
    """

    def __init__(self, name: str, context: PublishContext) -> None:
        self.status = PoolStatus(name)
        self._name = name
        self._context = context
        self._fallback = FallbackChooser(name, context, self.wake)
        self._writer = SliceWriter(name, context)
        self._wanted: Pool | None = None
        self._rejection = ""
        self._wakeup = asyncio.Event()
        self.is_working = False
        self._repair_timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._logged: tuple[PoolState, str] | None = None
        self._repairs: deque[float] = deque(maxlen=_REPAIR_BURST)
        self._short_backoff = Backoff(0.1, 10.0)
        self._long_backoff = Backoff(1.0, 60.0)
        self._held_backoff = Backoff(*_HELD_SECONDS)

    @property
    def depends_on_gates(self) -> bool:
        """Return whether a change of the server's feature gates can change the decision about the pool."""
        devices = self._wanted.devices if self._wanted is not None else ()
        return bool(self.status.dropped) or any(map(keeps_claims_away, devices))

    @property
    def is_busy(self) -> bool:
        """Return whether an attempt is in progress, due, or to be retried."""
        return self.is_working or self._is_woken or self.status.state is PoolState.PENDING

    @property
    def _is_woken(self) -> bool:
        return self._wakeup.is_set() or self._repair_timer is not None

    def want(self, pool: Pool | None, rejection: str = "") -> None:
        """Set the wanted pool.

        Args:
            pool: the wanted pool. None: the pool is deleted.
            rejection: the reason why the pool must not be published. Empty: the worker checks the pool.
        """
        self._wanted, self._rejection = pool, rejection
        self._short_backoff.reset()
        self._long_backoff.reset()
        self._wakeup.set()

    def wake(self) -> None:
        """Make an attempt now, because something on which the pool depends has changed."""
        self._wakeup.set()

    def repair(self) -> None:
        """Make an attempt soon, because another writer changed a slice. Wait longer if this happens often."""
        if self._repair_timer is not None:
            return
        recent = time.monotonic() - _REPAIR_WINDOW_SECONDS
        racing = len(self._repairs) == _REPAIR_BURST and self._repairs[0] > recent
        wait = _REPAIR_SLOW_SECONDS if racing else _DEBOUNCE_SECONDS
        self._repair_timer = asyncio.get_running_loop().call_later(wait, self._repair_now)

    def _repair_now(self) -> None:
        self._repair_timer = None
        self._repairs.append(time.monotonic())
        self._wakeup.set()

    async def run(self) -> None:
        """Keep the pool published until it is neither wanted nor published."""
        wait: float | None = None
        try:
            while True:
                await self._wait_for_wakeup(wait)
                self.is_working = True
                wait = await self._attempt()
                self.is_working = False
                if self._wanted is None and wait is None and not self._is_woken:
                    await self._fallback.close()  # the pool may be wanted again while this waits
                    if not self._is_woken:
                        return
        finally:
            self.is_working = False
            if self._repair_timer is not None:
                self._repair_timer.cancel()
            await self._fallback.close()

    async def _wait_for_wakeup(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()
        except TimeoutError:
            pass
        # The server's `Retry-After` is always respected, even if the worker is woken meanwhile.
        await asyncio.sleep(self._not_before - time.monotonic())
        self._wakeup.clear()

    async def _attempt(self) -> float | None:
        """Make one attempt. Return the seconds until the next attempt; None: wait for a change."""
        try:
            await self._wait_synced()
            decision = await self._publish()
        except TooManyRequests as error:
            pause = min(error.retry_after, _LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + pause
            decision = _decide_failed(PoolState.PENDING, error, max(pause, self._short_backoff.next()))
        except (Unavailable, Conflict, NotFound, AlreadyExists) as error:
            decision = _decide_failed(PoolState.PENDING, error, self._short_backoff.next())
        except (ApiError, InvalidObjectError) as error:
            decision = _decide_failed(PoolState.REFUSED, error, self._long_backoff.next())
        except DraError as error:
            decision = _decide_failed(PoolState.PENDING, error, self._short_backoff.next())
        except Exception as error:  # a defect here or in a callback must not end this task
            _log.exception("pool %s", self._name)
            message = f"internal error: {error!r}"
            decision = PoolDecision(PoolState.PENDING, message=message, retry_seconds=self._long_backoff.next())
        else:
            self._short_backoff.reset()
            self._long_backoff.reset()
        self._report(decision)
        return decision.retry_seconds

    async def _publish(self) -> PoolDecision:
        """Make the server's slices equal to the wanted pool, as far as feature gates and claims allow this.

        Raises:
            DraError: the pool cannot be published now. Writes before the failure are done.
        """
        wanted = self._wanted
        if wanted is None:
            await self._writer.remove()
            return PoolDecision(PoolState.REMOVED)
        if self._rejection:
            return PoolDecision(PoolState.REFUSED, message=self._rejection + self._context.origin)
        # The check of thousands of devices takes long, so it runs in a thread.
        if problems := await asyncio.to_thread(refusals, wanted, self._context.node):
            message = "; ".join(map(str, problems)) + self._context.origin
            return PoolDecision(PoolState.REFUSED, message=message)
        if not wanted.node_local:
            await self._context.slices.open_shared()
            await self._context.slices.wait_synced()
        self._context.recall(self._name)
        await self._probe_features(wanted)
        while True:
            # The loop ends, because every round except the last has found another dropped field.
            decision = await self._fallback.choose(wanted)
            if decision.pool is None:
                await self._writer.remove()
                return self._schedule_retry(decision)
            decision = await pin_devices(self._context, self._name, wanted, decision)
            if decision.pool is None or await self._write(decision.pool, wanted.generation):
                return self._schedule_retry(decision)

    async def _probe_features(self, wanted: Pool) -> None:
        """Probe which fields of the wanted pool the server stores, if no write would show this."""
        features = self._context.features
        if features.is_probe_due(fields_of(wanted)) and await features.probe_again(await self._layout(wanted)):
            _log.info("pool %s: the API server now stores fields that it dropped before", self._name)
            self._context.wake_all()
        if any(map(keeps_claims_away, wanted.devices)) and not features.is_known(TAINTS):
            # If the gate of taints is off, the scheduler allocates a stored device despite its taint. So the
            # fields are probed even if no write is planned. (The scheduler skips devices with counters or
            # binding conditions.)
            await features.probe(await self._layout(wanted))

    async def _write(self, pool: Pool, generation: int) -> bool:
        """Plan and execute the writes. Return False if the server drops another field: then decide again."""
        specs = await self._layout(pool)
        owner = await self._context.owner.reference()
        actions = plan(specs, self._writer.list_stored(), owner=owner, generation=generation)
        has_writes = not all(isinstance(action, Delete) for action in actions)
        # The dry run shows dropped fields before an unsafe device is stored.
        if has_writes and await self._context.features.probe(specs):
            return False
        if await self._writer.execute(actions):
            return False
        self._context.recall(self._name).set_current(pool.devices)
        return True

    async def _layout(self, pool: Pool) -> list[ResourceSliceSpec]:
        """Compute the slices of a pool in a thread, because 5000 devices take a quarter of a second."""
        return await asyncio.to_thread(layout, pool, self._context.driver, self._context.node)

    def _schedule_retry(self, decision: PoolDecision) -> PoolDecision:
        """Return the decision with `retry_seconds` set."""
        if decision.held_by:
            return replace(decision, retry_seconds=self._held_backoff.next())
        self._held_backoff.reset()
        dropped = decision.dropped
        return replace(
            decision, retry_seconds=self._context.features.seconds_until_probe(dropped) if dropped else None
        )

    async def _wait_synced(self) -> None:
        """Wait for the first list of slices. While waiting, report this in the status."""
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._context.slices.wait_synced()
            except TimeoutError:
                problem = self._context.slices.problem
                message = str(problem or "the API server has not answered yet")
                self._report(PoolDecision(PoolState.PENDING, message=message))
            else:
                return

    def _report(self, decision: PoolDecision) -> None:
        published = current_slices(self._context.slices.of(self._name))
        self.status = PoolStatus(
            self._name,
            decision.state,
            generation=published[0].spec.pool.generation if published else 0,
            slices=len(published),
            devices=sum(len(item.spec.devices) for item in published),
            message=decision.message,
            dropped=decision.dropped,
            held_by=decision.held_by,
            writes=self._writer.writes,
        )
        self._log()
        self._context.report(self.status)

    def _log(self) -> None:
        """Log one line for each change of state or message. A lasting problem is logged once."""
        status = self.status
        change = (status.state, status.message)
        if change == self._logged:
            return
        self._logged = change
        text = status.message or f"{_count(status.devices, 'device')} in {_count(status.slices, 'slice')}"
        if status.held_by:
            text += f" (held by {', '.join(status.held_by)})"
        _log.log(_LEVELS[status.state], "pool %s: %s: %s", status.pool, status.state.replace("_", " "), text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _decide_failed(state: PoolState, error: DraError, wait: float) -> PoolDecision:
    return PoolDecision(state, message=str(error), retry_seconds=wait)
