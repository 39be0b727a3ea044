"""One pool over time: when to try, when to wait, and its status."""

import asyncio
import logging
import time
from collections import deque
from typing import Final

from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.pool import Pool
from dradriver.publish.context import Desk
from dradriver.publish.features.dropped_fields import keeps_claims_away
from dradriver.publish.holds.published_counters import current_slices
from dradriver.publish.layout import refusals
from dradriver.publish.status import PoolState, PoolStatus
from dradriver.publish.sync import Outcome, PoolSync

__all__ = ["PoolWorker"]

_log = logging.getLogger(__name__)

_DEBOUNCE_SECONDS: Final = 0.02
"""Wait after a change made by others: a deletion of many slices is repaired at one go."""
_REPAIR_BURST: Final = 100
_REPAIR_WINDOW_SECONDS: Final = 60.0
_REPAIR_SLOW_SECONDS: Final = 5.0
"""More repairs than the burst within the window: someone else writes this pool too, do not race them."""


_LEVELS: Final = dict.fromkeys(PoolState, logging.WARNING) | {
    PoolState.PUBLISHED: logging.INFO,
    PoolState.REMOVED: logging.INFO,
    PoolState.REFUSED: logging.ERROR,
}
"""How a state is logged."""

_LONGEST_PAUSE_SECONDS: Final = 60.0
"""The most that is made of a server's `Retry-After`."""


class PoolWorker:
    """Keeps one pool published; runs as one task until the pool is neither wanted nor there.

    Attributes:
        status: where the pool stands.
    """

    def __init__(self, name: str, desk: Desk) -> None:
        self.status = PoolStatus(name)
        self._desk = desk
        self._sync = PoolSync(name, desk, self.wake)
        self._wanted: Pool | None = None
        self._objection = ""
        self._dirty = asyncio.Event()
        self._working = False
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._told: tuple[PoolState, str] | None = None
        self._repairs: deque[float] = deque(maxlen=_REPAIR_BURST)
        self._soon = Backoff(0.1, 10.0)
        self._later = Backoff(1.0, 60.0)

    @property
    def working(self) -> bool:
        """Whether a try is under way."""
        return self._working

    @property
    def depends_on_gates(self) -> bool:
        """Whether what is right to publish may change with the server, though nothing else does."""
        devices = self._wanted.devices if self._wanted is not None else ()
        return bool(self.status.dropped) or any(map(keeps_claims_away, devices))

    @property
    def busy(self) -> bool:
        """Whether something is being done, about to be, or tried again."""
        return self._working or self._is_touched or self.status.state is PoolState.PENDING

    @property
    def _is_touched(self) -> bool:
        return self._dirty.is_set() or self._timer is not None

    def want(self, pool: Pool | None, objection: str = "") -> None:
        """Sets what is wanted, None for nothing; an `objection` refuses it without a look."""
        self._wanted, self._objection = pool, objection
        self._soon.reset()
        self._later.reset()
        self._dirty.set()

    def wake(self) -> None:
        """Look again: something that the pool depends on has changed."""
        self._dirty.set()

    def touched(self) -> None:
        """Someone else changed a slice of the pool."""
        if self._timer is not None:
            return
        recent = time.monotonic() - _REPAIR_WINDOW_SECONDS
        racing = len(self._repairs) == _REPAIR_BURST and self._repairs[0] > recent
        wait = _REPAIR_SLOW_SECONDS if racing else _DEBOUNCE_SECONDS
        self._timer = asyncio.get_running_loop().call_later(wait, self._look_at_touched)

    def _look_at_touched(self) -> None:
        self._timer = None
        self._repairs.append(time.monotonic())
        self._dirty.set()

    async def run(self) -> None:
        """Works until the pool is neither wanted nor there."""
        wait: float | None = None
        try:
            while True:
                await self._woken(wait)
                self._working = True
                wait = await self._try()
                self._working = False
                if self._wanted is None and wait is None and not self._is_touched:
                    await self._sync.close()  # may take a while, in which the pool may be wanted again
                    if not self._is_touched:
                        return
        finally:
            self._working = False
            if self._timer is not None:
                self._timer.cancel()
            await self._sync.close()

    async def _woken(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._dirty.wait()
        except TimeoutError:
            pass
        # A server that asked for time gets it, whatever happens meanwhile.
        await asyncio.sleep(self._not_before - time.monotonic())
        self._dirty.clear()

    async def _try(self) -> float | None:
        """One try; the seconds after which to look again, None if only a change makes that necessary."""
        try:
            await self._synced()
            outcome = await self._outcome()
        except TooManyRequests as error:
            pause = min(error.retry_after, _LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + pause
            outcome = self._failed(PoolState.PENDING, error, max(pause, self._soon.next()))
        except (Unavailable, Conflict, NotFound, AlreadyExists) as error:
            outcome = self._failed(PoolState.PENDING, error, self._soon.next())
        except (ApiError, InvalidObjectError) as error:
            outcome = self._failed(PoolState.REFUSED, error, self._later.next())
        except DraError as error:
            outcome = self._failed(PoolState.PENDING, error, self._soon.next())
        except Exception as error:  # a defect, here or in a callback, must not end this pool's task
            _log.exception("pool %s", self.status.pool)
            outcome = Outcome(PoolState.PENDING, f"internal error: {error!r}", again=self._later.next())
        else:
            self._soon.reset()
            self._later.reset()
        self._report(outcome)
        return outcome.again

    async def _outcome(self) -> Outcome:
        if self._wanted is None:
            await self._sync.remove()
            return Outcome(PoolState.REMOVED)
        if self._objection:
            return Outcome(PoolState.REFUSED, self._objection + self._desk.origin)
        wanted = self._wanted
        # Thousands of devices take a while.
        if problems := await asyncio.to_thread(refusals, wanted, self._desk.node):
            return Outcome(PoolState.REFUSED, "; ".join(map(str, problems)) + self._desk.origin)
        return await self._sync.publish(wanted)

    async def _synced(self) -> None:
        """Waits for the first list of slices, and says so meanwhile."""
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._desk.slices.synced()
            except TimeoutError:
                problem = self._desk.slices.problem
                self._report(Outcome(PoolState.PENDING, str(problem or "the API server has not answered yet")))
            else:
                return

    def _failed(self, state: PoolState, error: DraError, wait: float) -> Outcome:
        return Outcome(state, str(error), again=wait)

    def _report(self, outcome: Outcome) -> None:
        published = current_slices(self._desk.slices.of(self.status.pool))
        self.status = PoolStatus(
            self.status.pool,
            outcome.state,
            generation=published[0].spec.pool.generation if published else 0,
            slices=len(published),
            devices=sum(len(item.spec.devices) for item in published),
            message=outcome.message,
            dropped=outcome.dropped,
            held_by=outcome.held_by,
            writes=self._sync.writes,
        )
        self._tell()
        self._desk.report(self.status)

    def _tell(self) -> None:
        """One line in the log whenever the pool comes to stand elsewhere; a problem that lasts is told once."""
        status = self.status
        news = (status.state, status.message)
        if news == self._told:
            return
        self._told = news
        words = status.message or f"{_counted(status.devices, 'device')} in {_counted(status.slices, 'slice')}"
        if status.held_by:
            words += f" (held by {', '.join(status.held_by)})"
        _log.log(_LEVELS[status.state], "pool %s: %s: %s", status.pool, status.state.replace("_", " "), words)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
