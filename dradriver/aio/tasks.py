"""Tasks that run as long as the plugin does, and how tasks are brought to an end."""

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
    """Lets tasks end for `seconds`, then cancels those that have not, and waits for them.

    One that ignores this (a driver's code may) is named in the log and left behind: it must not keep all others
    from being brought to their end.
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
    """The outcome of work that a thread does and nothing can stop.

    Who is cancelled meanwhile leaves when the work has ended, so that no lock is given back before.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def deliverable(error: BaseException) -> Exception:
    """What code in a thread raised, as whoever waits for it on the loop may get it.

    No future takes a StopIteration, and nobody ends or cancels a thread but its own code: such an error would
    end or cancel the one who waits.
    """
    told = isinstance(error, Exception) and not isinstance(error, StopIteration)
    return cast(Exception, error) if told else RuntimeError(repr(error))


class Unstoppable(asyncio.Future[T]):
    """The outcome of work that a thread does and nothing can stop: `settled` without a future around it.

    A task that is cancelled while it awaits this gets its `CancelledError` when the work has ended.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Refused: the task remembers that it is cancelled."""
        return False


class Background:
    """Owns tasks that should never end by themselves; `await stop()` cancels and awaits them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None
        self._stopping = False

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` until `stop()`."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def failure(self) -> None:
        """Waits until a task fails, and raises what it raised: a defect, nothing that goes away by waiting."""
        await self._failed.wait()
        assert self._error is not None  # noqa: S101 - set together
        raise self._error

    async def stop(self) -> None:
        """Cancels the tasks and waits for their end."""
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
            # A DraError says it all; the places in the code are wanted of a defect.
            defect = None if isinstance(error, DraError) else error
            _log.error("%s ended: %s", task.get_name(), error, exc_info=defect)
            self._error = error
            self._failed.set()
