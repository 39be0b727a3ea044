"""Read iterators of an author's code that may block: each in its own thread, from the event loop.

The threads are daemons: a thread that waits for a silent device must not prevent the end of the process.
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
    """Yield the items of the method; a plain one runs in a thread, which is idle between two items.

    If it is closed or canceled while the thread waits for an item, the thread closes the iterator as soon as
    that item comes.

    Args:
        method: a generator function, plain or async, or one that returns an iterable of either kind.
        name: the name of the thread, and of the method in messages.
        place: file and line of the method, for the end of messages.

    Raises:
        DriverError: the method returned something else.
        Exception: the exception of the method.
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
    """Return the iterator of an author's result, which may ignore its type hint."""
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
    """One daemon thread that runs jobs one after the other."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    async def do(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result; if canceled, the result is dropped."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        return await future

    def end(self, work: Callable[[], object]) -> None:
        """Run this as the last job; returns immediately."""
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
            with suppress(RuntimeError):  # the caller's loop is closed
                self._loop.call_soon_threadsafe(_settle, future, outcome, error)

    @staticmethod
    def _last(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException:
            _log.exception("%s: closing it raised", threading.current_thread().name)


def _settle(future: "asyncio.Future[Any]", outcome: object, error: Exception | None) -> None:
    if future.done():
        return  # the caller was canceled meanwhile
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(outcome)
