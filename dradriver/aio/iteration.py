"""Lets the event loop read iterators that a driver's author wrote. One that may block has its own thread.

The threads are daemons, because a thread that waits for a silent device must not prevent the end of the
process.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from inspect import isasyncgenfunction, iscoroutine
from typing import Any, TypeAlias, TypeVar, cast

from dradriver.aio.tasks import make_deliverable
from dradriver.errors import DriverError

__all__ = ["open_iterator"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ENDED = object()

_Job: TypeAlias = tuple[Callable[[], Any], "asyncio.Future[Any] | None"]


async def open_iterator(
    method: Callable[[], AsyncIterable[T] | Iterable[T]], name: str, location: str = ""
) -> AsyncIterator[T]:
    """Return an iterator over the method's items. A plain method runs in a thread, which idles between items.

    If the iterator is closed or canceled while the thread waits for an item, the thread closes the method's
    iterator as soon as this item arrives.

    Args:
        method: a plain or async generator function, or a function that returns a plain or async iterable.
        name: the name of the method in messages. It is also the name of the thread.
        location: file and line of the method. Messages end with it.

    Raises:
        DriverError: the method did not return an iterable.
        Exception: the method raised this exception.
    """
    if isasyncgenfunction(method):
        return aiter(cast(AsyncIterable[T], method()))
    worker = _Worker(name)
    try:
        returned = await worker.do(method)
        if not isinstance(returned, AsyncIterable):
            return _from_thread(worker, await worker.do(lambda: _iterator(returned, name, location)))
    except BaseException:
        worker.end(lambda: None)
        raise
    worker.end(lambda: None)
    return aiter(returned)


def _iterator(returned: Iterable[T], name: str, location: str) -> Iterator[T]:
    """Return the iterator over an author's result. The result may violate its type hint, so it is checked."""
    if iscoroutine(returned):
        returned.close()
    if not isinstance(returned, Iterable):
        raise DriverError(f"{name} returned {type(returned).__name__}, must return a generator{location}")
    return iter(returned)


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
        """Run `work` and return its result. If the caller is canceled, the result is dropped."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        return await future

    def end(self, work: Callable[[], object]) -> None:
        """Run `work` as the last job of the thread. This returns immediately."""
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
                error = make_deliverable(raised)
            with suppress(RuntimeError):  # raised if the caller's loop is closed
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
