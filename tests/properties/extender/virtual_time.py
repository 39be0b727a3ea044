"""An event loop whose clock jumps to the next timer as soon as nothing else is left to do."""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Self, cast

__all__ = ["VirtualDate", "run"]

_TICK: Final = 1e-6
"""Seconds by which the clock advances at least."""


class VirtualDate(datetime):
    """A date whose clock is that of the running event loop."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        made = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())
        return cast("Self", made.astimezone(tz))


class VirtualLoop(asyncio.SelectorEventLoop):
    """Waits for no timer, and runs the work of threads in the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self._clock_resolution = 0.0  # otherwise a very short timer ends while time stands still
        self._ready: Any
        self._scheduled: list[asyncio.TimerHandle]

    def time(self) -> float:
        return self._virtual_now

    # The work ends at once, so no thread is needed.
    def run_in_executor(  # type: ignore[override]
        self, _executor: Executor | None, work: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()

        def finish() -> None:
            try:
                done.set_result(work(*arguments))
            except Exception as error:  # it is the result
                done.set_exception(error)

        self.call_soon(finish)
        return done

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            cancelled: Any = heapq.heappop(self._scheduled)
            cancelled._scheduled = False
            self._timer_cancelled_count = 0
        if not self._ready:
            assert self._scheduled, "all tasks wait for each other"
            self._virtual_now = max(self._virtual_now + _TICK, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine until its end, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)
