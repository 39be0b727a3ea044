"""Background tasks that live as long as the plugin, and how tasks are ended."""

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, Final, TypeVar, cast

from dradriver.errors import DraError

__all__ = ["Background", "Unstoppable", "deliverable", "end", "settled"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_CANCEL_SECONDS: Final = 1.0


async def end(tasks: Collection[asyncio.Task[Any]], seconds: float = 0) -> None:
    """Let tasks end for `seconds`, then cancel the others and wait for them.

    A task that ignores its cancellation (a driver's code may) is named in the log and abandoned: it must not
    prevent the end of all others.
    """
    pending: Collection[asyncio.Task[Any]] = tasks
    if pending and seconds > 0:
        _, pending = await asyncio.wait(pending, timeout=seconds)
    for task in pending:
        task.cancel()
    if pending:
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_SECONDS)
    for task in pending:
        _log.error("%s goes on although it was cancelled, it is left behind", task.get_name())


async def settled(work: asyncio.Future[T]) -> T:
    """Return the result of work in a thread that cannot be stopped.

    If the caller is canceled meanwhile, it leaves when the work has ended, so that no lock is released earlier.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def deliverable(error: BaseException) -> Exception:
    """Convert an exception of code in a thread to one that a future on the loop can deliver.

    A future accepts no StopIteration, and only a thread's own code can end or cancel it: such an exception
    would end or cancel the waiting task.
    """
    told = isinstance(error, Exception) and not isinstance(error, StopIteration)
    return cast(Exception, error) if told else RuntimeError(repr(error))


class Unstoppable(asyncio.Future[T]):
    """The result of work in a thread that cannot be stopped; like `settled` without another future.

    A task that is canceled while it awaits this gets its `CancelledError` when the work has ended.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Reject the cancellation; the task remembers that it is canceled."""
        return False


class Background:
    """Owns tasks that should never end by themselves; `await stop()` cancels and awaits them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None
        self._stopping = False

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until `stop()`."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def failure(self) -> None:
        """Wait until a task fails, and raise its exception: a defect, which a retry cannot fix."""
        await self._failed.wait()
        assert self._error is not None  # noqa: S101 - set together
        raise self._error

    async def stop(self) -> None:
        """Cancel the tasks and wait for their end."""
        self._stopping = True
        await end(self._tasks)
        self._tasks.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            error: BaseException | None = (
                None if self._stopping else RuntimeError(f"{task.get_name()} was cancelled by its own code")
            )
        else:
            error = task.exception()
        if error is not None:
            # The message of a DraError is enough. For a defect the log needs the places in the code.
            defect = None if isinstance(error, DraError) else error
            _log.error("%s ended: %s", task.get_name(), error, exc_info=defect)
            self._error = error
            self._failed.set()
