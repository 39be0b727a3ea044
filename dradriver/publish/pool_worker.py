"""One pool over time: when to try, what an attempt does, when to wait, and the pool's status.

An attempt passes values along: the wanted pool, the decision (`features.fallback`: the server's feature gates,
`holds.pin_devices`: the claims), the planned writes (`layout` and `plan`, pure), and the result of the writes
(`writer`). If the process dies during an attempt, the next process starts from the slices that it finds on the
server.
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
"""Wait after a change made by others: a deletion of many slices is repaired at once."""
_REPAIR_BURST: Final = 100
_REPAIR_WINDOW_SECONDS: Final = 60.0
_REPAIR_SLOW_SECONDS: Final = 5.0
"""More repairs than the burst within the window: another writer changes this pool too. Do not race it."""

_HELD_SECONDS: Final = (1.0, 15.0)
"""First and longest wait before the claims that hold devices are looked up again."""

_LEVELS: Final = dict.fromkeys(PoolState, logging.WARNING) | {
    PoolState.PUBLISHED: logging.INFO,
    PoolState.REMOVED: logging.INFO,
    PoolState.REFUSED: logging.ERROR,
}
"""The log level of each state."""

_LONGEST_PAUSE_SECONDS: Final = 60.0
"""A longer `Retry-After` of the server is reduced to this."""


class PoolWorker:
    """Keeps one pool published; runs as one task until the pool is neither wanted nor published.

    Args:
        name: the pool's name.
        context: the values that the publisher's pools share.

    Attributes:
        status: the pool's status.
    """

    def __init__(self, name: str, context: PublishContext) -> None:
        self.status = PoolStatus(name)
        self._name = name
        self._context = context
        self._fallback = FallbackChooser(name, context, self.wake)
        self._writer = SliceWriter(name, context)
        self._wanted: Pool | None = None
        self._objection = ""
        self._dirty = asyncio.Event()
        self._working = False
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._logged: tuple[PoolState, str] | None = None
        self._repairs: deque[float] = deque(maxlen=_REPAIR_BURST)
        self._soon = Backoff(0.1, 10.0)
        self._later = Backoff(1.0, 60.0)
        self._held = Backoff(*_HELD_SECONDS)

    @property
    def working(self) -> bool:
        """Return whether an attempt is in progress."""
        return self._working

    @property
    def depends_on_gates(self) -> bool:
        """Return whether the right decision may change with the server while nothing else changes."""
        devices = self._wanted.devices if self._wanted is not None else ()
        return bool(self.status.dropped) or any(map(keeps_claims_away, devices))

    @property
    def busy(self) -> bool:
        """Return whether an attempt is in progress, due, or to be retried."""
        return self._working or self._is_woken or self.status.state is PoolState.PENDING

    @property
    def _is_woken(self) -> bool:
        return self._dirty.is_set() or self._timer is not None

    def want(self, pool: Pool | None, objection: str = "") -> None:
        """Set the wanted pool, None for nothing; an `objection` rejects it without a check."""
        self._wanted, self._objection = pool, objection
        self._soon.reset()
        self._later.reset()
        self._dirty.set()

    def wake(self) -> None:
        """Try again now, because something that the pool depends on has changed."""
        self._dirty.set()

    def repair(self) -> None:
        """Try again soon, because another writer changed a slice of the pool; later if that is frequent."""
        if self._timer is not None:
            return
        recent = time.monotonic() - _REPAIR_WINDOW_SECONDS
        racing = len(self._repairs) == _REPAIR_BURST and self._repairs[0] > recent
        wait = _REPAIR_SLOW_SECONDS if racing else _DEBOUNCE_SECONDS
        self._timer = asyncio.get_running_loop().call_later(wait, self._repair_now)

    def _repair_now(self) -> None:
        self._timer = None
        self._repairs.append(time.monotonic())
        self._dirty.set()

    async def run(self) -> None:
        """Work until the pool is neither wanted nor published."""
        wait: float | None = None
        try:
            while True:
                await self._wait(wait)
                self._working = True
                wait = await self._try()
                self._working = False
                if self._wanted is None and wait is None and not self._is_woken:
                    await self._fallback.close()  # may take a while, and the pool may be wanted again meanwhile
                    if not self._is_woken:
                        return
        finally:
            self._working = False
            if self._timer is not None:
                self._timer.cancel()
            await self._fallback.close()

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._dirty.wait()
        except TimeoutError:
            pass
        # A server's `Retry-After` is respected, whatever happens meanwhile.
        await asyncio.sleep(self._not_before - time.monotonic())
        self._dirty.clear()

    async def _try(self) -> float | None:
        """Make one attempt; return the seconds until the next one, None if only a change makes it necessary."""
        try:
            await self._wait_synced()
            decision = await self._publish()
        except TooManyRequests as error:
            pause = min(error.retry_after, _LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + pause
            decision = _failed(PoolState.PENDING, error, max(pause, self._soon.next()))
        except (Unavailable, Conflict, NotFound, AlreadyExists) as error:
            decision = _failed(PoolState.PENDING, error, self._soon.next())
        except (ApiError, InvalidObjectError) as error:
            decision = _failed(PoolState.REFUSED, error, self._later.next())
        except DraError as error:
            decision = _failed(PoolState.PENDING, error, self._soon.next())
        except Exception as error:  # a defect, here or in a callback, must not end this pool's task
            _log.exception("pool %s", self._name)
            message = f"internal error: {error!r}"
            decision = PoolDecision(PoolState.PENDING, message=message, again=self._later.next())
        else:
            self._soon.reset()
            self._later.reset()
        self._report(decision)
        return decision.again

    async def _publish(self) -> PoolDecision:
        """Make the server's slices equal to the wanted pool, as far as the server and the claims allow it.

        Raises:
            DraError: it is not possible now. Writes before the failure are done.
        """
        wanted = self._wanted
        if wanted is None:
            await self._writer.remove()
            return PoolDecision(PoolState.REMOVED)
        if self._objection:
            return PoolDecision(PoolState.REFUSED, message=self._objection + self._context.origin)
        # Takes time for thousands of devices.
        if problems := await asyncio.to_thread(refusals, wanted, self._context.node):
            message = "; ".join(map(str, problems)) + self._context.origin
            return PoolDecision(PoolState.REFUSED, message=message)
        if not wanted.node_local:
            await self._context.slices.open_shared()
            await self._context.slices.synced()
        self._context.recall(self._name)
        await self._probe_features(wanted)
        while True:
            # The loop ends: every round but the last has detected another dropped field.
            decision = await self._fallback.choose(wanted)
            if decision.pool is None:
                await self._writer.remove()
                return self._next_try(decision)
            decision = await pin_devices(self._context, self._name, wanted, decision)
            if decision.pool is None or await self._write(decision.pool, wanted.generation):
                return self._next_try(decision)

    async def _probe_features(self, wanted: Pool) -> None:
        """Probe what the server stores of the wanted pool, if no write would show it."""
        features = self._context.features
        if features.due(fields_of(wanted)) and await features.probe_again(await self._layout(wanted)):
            _log.info("pool %s: the API server stores now what it dropped before", self._name)
            self._context.wake_all()
        if any(map(keeps_claims_away, wanted.devices)) and not features.knows(TAINTS):
            # A scheduler whose gate was turned off allocates a device that is stored with its taint. So probe
            # also if nothing is to be written. (The scheduler skips devices with counters or binding
            # conditions.)
            await features.probe(await self._layout(wanted))

    async def _write(self, pool: Pool, generation: int) -> bool:
        """Plan and execute the writes; False if the server dropped a new field: then a new decision is due."""
        specs = await self._layout(pool)
        owner = await self._context.owner.reference()
        actions = plan(specs, self._writer.stored(), owner=owner, generation=generation)
        stores = not all(isinstance(action, Delete) for action in actions)
        # A dry run shows a dropped field before anything unsafe is stored, not after.
        if stores and await self._context.features.probe(specs):
            return False
        if await self._writer.execute(actions):
            return False
        self._context.recall(self._name).set_current(pool.devices)
        return True

    async def _layout(self, pool: Pool) -> list[ResourceSliceSpec]:
        """Compute the slices of a pool in a thread: 5000 devices take a quarter of a second."""
        return await asyncio.to_thread(layout, pool, self._context.driver, self._context.node)

    def _next_try(self, decision: PoolDecision) -> PoolDecision:
        """Return the decision with the time of the next attempt."""
        if decision.held_by:
            return replace(decision, again=self._held.next())
        self._held.reset()
        dropped = decision.dropped
        return replace(decision, again=self._context.features.due_in(dropped) if dropped else None)

    async def _wait_synced(self) -> None:
        """Wait for the first list of slices, and report the wait."""
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._context.slices.synced()
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
        """Log one line for each change of state or message; a lasting problem is logged once."""
        status = self.status
        news = (status.state, status.message)
        if news == self._logged:
            return
        self._logged = news
        words = status.message or f"{_counted(status.devices, 'device')} in {_counted(status.slices, 'slice')}"
        if status.held_by:
            words += f" (held by {', '.join(status.held_by)})"
        _log.log(_LEVELS[status.state], "pool %s: %s: %s", status.pool, status.state.replace("_", " "), words)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _failed(state: PoolState, error: DraError, wait: float) -> PoolDecision:
    return PoolDecision(state, message=str(error), again=wait)
