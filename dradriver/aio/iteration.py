"""Iterators of an author's code that may block: in a thread of their own, read from the event loop.

The threads are daemons: one that waits for a device that never speaks must not keep the process from its end.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from inspect import isasyncgenfunction, iscoroutine
from typing import Any, TypeAlias, TypeVar, cast

from dradriver.aio.tasks import deliverable
from dradriver.errors import DriverError

__all__ = ["opened"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ENDED = object()

_Job: TypeAlias = tuple[Callable[[], Any], "asyncio.Future[Any] | None"]


async def opened(
    method: Callable[[], AsyncIterable[T] | Iterable[T]], name: str, place: str = ""
) -> AsyncIterator[T]:
    """What the method yields: a plain one runs in a thread, between two items it does nothing.

    Closed or cancelled while the thread waits for an item, the iterator is closed in its thread as soon as that
    item comes.

    Args:
        method: a generator function, plain or async, or one that returns an iterable of either kind.
        name: of the thread, and of the method in messages.
        place: file and line of the method, as messages end with it.

    Raises:
        DriverError: the method returned something else.
        Exception: whatever the method raises.
    """
    if isasyncgenfunction(method):
        return aiter(cast(AsyncIterable[T], method()))
    worker = _Worker(name)
    try:
        made = await worker.do(method)
        if not isinstance(made, AsyncIterable):
            return _from_thread(worker, await worker.do(lambda: _iterator(made, name, place)))
    except BaseException:
        worker.end(lambda: None)
        raise
    worker.end(lambda: None)
    return aiter(made)


def _iterator(made: Iterable[T], name: str, place: str) -> Iterator[T]:
    """The iterator of what an author's method returned, which is not bound to its type."""
    if iscoroutine(made):
        made.close()
    if not isinstance(made, Iterable):
        raise DriverError(f"{name} returned {type(made).__name__}: a generator is wanted{place}")
    return iter(made)


async def _from_thread(worker: "_Worker", items: Iterator[T]) -> AsyncIterator[T]:
    try:
        while (item := await worker.do(lambda: next(items, _ENDED))) is not _ENDED:
            yield cast(T, item)
    finally:
        worker.end(getattr(items, "close", lambda: None))


class _Worker:
    """One daemon thread that does one thing after the other."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    async def do(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises; cancelled, nobody waits for it any more."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        return await future

    def end(self, work: Callable[[], object]) -> None:
        """Does this last; returns at once."""
        self._jobs.put((work, None))

    def _serve(self) -> None:
        while True:
            work, future = self._jobs.get()
            if future is None:
                return self._last(work)
            outcome: object = None
            error: Exception | None = None
            try:
                outcome = work()
            except BaseException as raised:
                error = deliverable(raised)
            with suppress(RuntimeError):  # the loop that asked is closed
                self._loop.call_soon_threadsafe(_settle, future, outcome, error)

    @staticmethod
    def _last(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException:
            _log.exception("%s: closing it raised", threading.current_thread().name)


def _settle(future: "asyncio.Future[Any]", outcome: object, error: Exception | None) -> None:
    if future.done():
        return  # whoever asked was cancelled meanwhile
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(outcome)
