"""One thread for blocking calls, each with a time limit."""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from dradriver_gpu_mig.card.errors import TimedOutError

__all__ = ["Lane"]

T = TypeVar("T")
_Work = Callable[[], None]


class Lane:
    """Runs blocking calls one after the other on a thread of its own.

    A thread that hangs in a call cannot be ended. The lane then rejects all further calls until the call
    returns, so at most one thread of a lane hangs. The thread is a daemon: a hanging call does not keep the
    process alive.

    Args:
        name: name of the thread, for messages.
        seconds: time limit of one call.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self._seconds = seconds
        self._work: Final[queue.SimpleQueue[_Work | None]] = queue.SimpleQueue()
        self._lock = asyncio.Lock()
        self._running: asyncio.Future[None] | None = None
        self._is_overdue = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def hangs(self) -> bool:
        """Whether a call runs beyond its time limit, or its caller was cancelled and the call still runs."""
        return self._running is not None and not self._running.done()

    async def call(self, action: Callable[[], T]) -> T:
        """Return the result of a blocking function.

        If the caller is cancelled, the function still runs to its end, because hardware cannot stop in the
        middle of a change.

        Args:
            action: the function.

        Raises:
            TimedOutError: the function, or an earlier one, did not return within the time limit.
        """
        async with self._lock:
            if self._running is not None and not self._running.done():
                if self._is_overdue:
                    raise TimedOutError(f"{self.name}: an earlier call has not returned yet")
                await self._wait(self._running, "an earlier call")
            self._is_overdue = False
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[T] = loop.create_future()
            self._running = running = loop.create_future()

            def work() -> None:
                try:
                    result = action()
                except BaseException as error:
                    _finish(loop, running, answer, partial(answer.set_exception, error))
                else:
                    _finish(loop, running, answer, partial(answer.set_result, result))

            self._work.put(work)
            try:
                await self._wait(running, "a call")
            except BaseException:
                answer.cancel()
                raise
            return await answer

    async def close(self) -> None:
        """End the thread, unless it hangs in a call."""
        async with self._lock:
            self._work.put(None)
            if not self.hangs:
                self._thread.join()  # takes no time, because the thread waits for work

    async def _wait(self, running: asyncio.Future[None], what: str) -> None:
        done, _ = await asyncio.wait({running}, timeout=self._seconds)
        if not done:
            self._is_overdue = True
            raise TimedOutError(f"{self.name}: {what} has not returned within {self._seconds:g} s")

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _finish(
    loop: asyncio.AbstractEventLoop,
    running: asyncio.Future[None],
    answer: asyncio.Future[T],
    deliver: Callable[[], None],
) -> None:
    """Give the result of a call to its caller, and mark the call as returned."""

    def finish() -> None:
        if not answer.done():
            deliver()
        running.set_result(None)

    with suppress(RuntimeError):  # the loop was closed before this thread ended
        loop.call_soon_threadsafe(finish)
