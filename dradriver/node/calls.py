"""Calling an author's methods: `async def` on the loop, plain `def` in a worker thread.

Whatever they raise arrives as a `DriverError` that names the method, or as the `DraError` that they raised.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, cast

from dradriver.driver.base import Driver
from dradriver.errors import DraError, DriverError
from dradriver.node.errors import StillRunningError

__all__ = ["DriverCalls"]

T = TypeVar("T")

_THREADS: Final = 64
"""Prepares that block side by side; more wait for a thread."""


class DriverCalls:
    """Calls one driver's methods; `close()` when done."""

    def __init__(self, driver: Driver) -> None:
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
            DriverError: anything else that it raised, as its cause.
            StillRunningError: the caller was cancelled, but the method goes on in its thread.
        """
        try:
            outcome: T | Awaitable[T]
            if inspect.iscoroutinefunction(method):
                outcome = method(*arguments)
            else:
                outcome = await self._in_thread(method, arguments)
            return await outcome if inspect.isawaitable(outcome) else outcome
        except DraError:
            raise
        except (Exception, SystemExit) as error:
            name = getattr(method, "__name__", str(method))
            told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise DriverError(f"driver {self.driver.name}: {name}(){about} raised {told}") from error

    async def _in_thread(
        self, method: Callable[..., T | Awaitable[T]], arguments: Sequence[object]
    ) -> T | Awaitable[T]:
        running = self._threads.submit(_exhausted, method, arguments)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if running.cancel() or running.done():
                raise
            raise StillRunningError from None

    def close(self) -> None:
        """Lets go of the threads; one that never returns can't be stopped."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _exhausted(method: Callable[..., T], arguments: Sequence[object]) -> T:
    """What the method returns; a generator's body runs here too: in the thread, and where errors are told."""
    outcome = method(*arguments)
    return cast(T, list(outcome)) if inspect.isgenerator(outcome) else outcome
