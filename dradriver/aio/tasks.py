"""Runs background tasks that last as long as the plugin, and ends tasks."""

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, Final, TypeVar, cast

from dradriver.errors import DraError

__all__ = ["Background", "Unstoppable", "await_thread", "end", "make_deliverable"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_CANCEL_SECONDS: Final = 1.0


async def end(tasks: Collection[asyncio.Task[Any]], seconds: float = 0) -> None:
    """Wait up to `seconds` for tasks to end. Then cancel the tasks that still run, and wait for them.

    If a task ignores its cancellation, as the code of a driver may, the task is logged and no longer waited
    for. It must not prevent the end of other tasks.
    """
    pending: Collection[asyncio.Task[Any]] = tasks
    if pending and seconds > 0:
        _, pending = await asyncio.wait(pending, timeout=seconds)
    for task in pending:
        task.cancel()
    if pending:
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_SECONDS)
    for task in pending:
        _log.error("%s ignores its cancellation and is abandoned", task.get_name())


async def await_thread(work: asyncio.Future[T]) -> T:
    """Return the result of work in a thread. The work cannot be stopped.

    If the caller is canceled meanwhile, `CancelledError` is raised only after the work has ended, so that the
    caller releases no lock earlier.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def make_deliverable(error: BaseException) -> Exception:
    """Convert an exception of code in a thread to an exception that a future of the event loop can deliver.

    A future does not accept StopIteration. Exceptions such as SystemExit or CancelledError would end or cancel
    the waiting task, although only the thread's code raised them.
    """
    is_deliverable = isinstance(error, Exception) and not isinstance(error, StopIteration)
    return cast(Exception, error) if is_deliverable else RuntimeError(repr(error))


class Unstoppable(asyncio.Future[T]):
    """A future for the result of work in a thread. The work cannot be stopped, so this rejects cancellation.

    The effect is that of `await_thread`, but without a second future. If a task is canceled while it awaits
    this future, `CancelledError` is raised only after the work has ended.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Reject the cancellation. The waiting task still records that it is canceled."""
        return False


class Background:
    """Owns tasks that run until `await stop()`, which cancels the tasks and waits for their end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None
        self._stopping = False

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until `stop()`."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_ended)

    async def failure(self) -> None:
        """Wait until a task fails, and raise its exception. The cause is a defect, so a retry cannot help."""
        await self._failed.wait()
        assert self._error is not None  # noqa: S101 - set together
        raise self._error

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set. If a task fails before, raise its exception."""
        stopping = asyncio.create_task(stop.wait(), name="wait for stop")
        failing = asyncio.create_task(self.failure(), name="wait for failure")
        try:
            await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                await failing
        finally:
            await end({stopping, failing})

    async def stop(self) -> None:
        """Cancel the tasks and wait for their end."""
        self._stopping = True
        await end(self._tasks)
        self._tasks.clear()

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            error: BaseException | None = (
                None if self._stopping else RuntimeError(f"{task.get_name()} was cancelled by its own code")
            )
        else:
            error = task.exception()
        if error is not None:
            # For a DraError, the message is enough. For a defect, the log needs the traceback.
            defect = None if isinstance(error, DraError) else error
            _log.error("%s ended: %s", task.get_name(), error, exc_info=defect)
            self._error = error
            self._failed.set()
