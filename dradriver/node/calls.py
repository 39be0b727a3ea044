"""Calling an author's methods: `async def` on the loop, plain `def` in a worker thread.

Whatever they raise arrives as a `DriverError` that names the method, or as the `DraError` that they raised.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar, cast

from dradriver.driver import DeviceSource, Driver
from dradriver.errors import DraError, DriverError
from dradriver.node.errors import StillRunningError

__all__ = ["Calls", "DriverCalls", "is_being_cancelled"]

T = TypeVar("T")

_THREADS: Final = 64
"""Prepares that block side by side; more wait for a thread."""


class Calls:
    """Calls the methods of one driver, of whatever kind; `close()` when done."""

    driver: DeviceSource

    def __init__(self, driver: DeviceSource) -> None:
        self.driver = driver
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"driver-{driver.name}")

    async def call(self, method: Callable[..., T | Awaitable[T]], *arguments: object, about: str = "") -> T:
        """The method's result.

        Args:
            method: a method of the driver.
            arguments: what it is called with.
            about: what the call is about, for the error: ` of claim default/led`.

        Raises:
            DraError: what the method raised, if it is one.
            DriverError: anything else that it raised, as its cause; also if it cancelled itself.
            StillRunningError: the caller was cancelled, but the method goes on in its thread.
        """
        try:
            outcome: T | Awaitable[T]
            if inspect.iscoroutinefunction(method):
                outcome = method(*arguments)
            else:
                outcome = await self._in_thread(method, arguments, about)
            return await outcome if inspect.isawaitable(outcome) else outcome
        except DraError:
            raise
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise self._raised(method, about, error) from error
        except (Exception, SystemExit) as error:
            raise self._raised(method, about, error) from error

    def _raised(self, method: Callable[..., object], about: str, error: BaseException) -> DriverError:
        name = getattr(method, "__name__", str(method))
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return DriverError(f"driver {self.driver.name}: {name}(){about} raised {told}")

    async def _in_thread(
        self, method: Callable[..., T | Awaitable[T]], arguments: Sequence[object], about: str
    ) -> T | Awaitable[T]:
        running = self._threads.submit(copy_context().run, self._run, method, arguments, about)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if running.cancel() or running.done():
                raise
            raise StillRunningError from None

    def _run(self, method: Callable[..., T], arguments: Sequence[object], about: str) -> T:
        """What the method returns; an iterator's body runs here too: in the thread, where errors are told."""
        try:
            outcome = method(*arguments)
            return cast(T, list(outcome)) if isinstance(outcome, Iterator) else outcome
        except DraError:
            raise
        except BaseException as error:
            # No future takes a StopIteration, and nobody interrupts or cancels a thread but its own code.
            raise self._raised(method, about, error) from error

    def close(self) -> None:
        """Lets go of the threads; one that never returns can't be stopped."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class DriverCalls(Calls):
    """Calls the methods of a driver on a node."""

    driver: Driver

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)


def is_being_cancelled() -> bool:
    """Whether a `CancelledError` is meant for the running task, and not left over by code that it called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
