"""Call an author's methods: `async def` on the loop, plain `def` in a worker thread.

An exception of a method becomes a `DriverError` that names the method and the author's file and line. A
`DraError` that the method raises on purpose stays as it is. The traceback is logged at level debug.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar, cast

from dradriver.driver import DeviceSource, Driver
from dradriver.driver.code_places import at, defined_at, raised_at
from dradriver.errors import DraError, DriverError
from dradriver.node.errors import StillRunningError

__all__ = ["Calls", "DriverCalls", "is_being_cancelled", "raised_by", "subject_of"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS: Final = 64
"""Maximum of prepares that block at the same time; further ones wait for a thread."""


def raised_by(
    driver: DeviceSource, method: Callable[..., object], error: BaseException, about: str = ""
) -> DriverError:
    """Convert an exception of a method to one line with the author's file and line.

    The traceback is logged at level debug, without the exception's message, which may quote secret values of a
    claim.

    Args:
        driver: the driver that has the method.
        method: the method.
        error: the exception.
        about: the subject of the call: ` of claim default/led`.
    """
    subject, kind = subject_of(driver, method, about), type(error).__name__
    if _log.isEnabledFor(logging.DEBUG):
        bare = DriverError(f"raised {kind}").with_traceback(error.__traceback__)
        _log.debug("%s raised %s", subject, kind, exc_info=bare)
    told = f"{kind}: {' '.join(str(error).splitlines())}" if str(error) else kind
    return DriverError(f"{subject} raised {told}{at(raised_at(error, type(driver)) or defined_at(method))}")


def subject_of(driver: DeviceSource, method: Callable[..., object], about: str = "") -> str:
    """Return the start of a message about a method: `driver led.example.com: discover()`."""
    return f"driver {driver.name}: {getattr(method, '__name__', method)}(){about}"


class Calls:
    """Calls the methods of one driver of any kind; call `close()` at the end.

    Args:
        driver: the author's driver.
        guard: raises a DraError when no method may be called any more.
    """

    driver: DeviceSource

    def __init__(self, driver: DeviceSource, guard: Callable[[], None] = lambda: None) -> None:
        self.driver = driver
        self._guard = guard
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"driver-{driver.name}")

    async def call(self, method: Callable[..., T | Awaitable[T]], *arguments: object, about: str = "") -> T:
        """Call a method and return its result.

        Args:
            method: a method of the driver.
            arguments: its arguments.
            about: the subject of the call, for the error: ` of claim default/led`.

        Raises:
            DraError: the method raised it, unless it is also a `ValueError` (an invalid value).
            DriverError: the method raised any other exception, which is the cause, or canceled itself.
            StillRunningError: the caller was canceled, but the method continues in its thread.
        """
        self._guard()
        try:
            outcome: T | Awaitable[T]
            if inspect.iscoroutinefunction(method):
                outcome = method(*arguments)
            else:
                outcome = await self._in_thread(method, arguments, about)
            return await outcome if inspect.isawaitable(outcome) else outcome
        except DraError as error:
            if not isinstance(error, ValueError):
                raise
            raise raised_by(self.driver, method, error, about) from error
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise raised_by(self.driver, method, error, about) from error
        except (Exception, SystemExit) as error:
            raise raised_by(self.driver, method, error, about) from error

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
        """Run the method; an iterator's body runs here too, in the thread, where errors are reported."""
        try:
            outcome = method(*arguments)
            return cast(T, list(outcome)) if isinstance(outcome, Iterator) else outcome
        except BaseException as error:
            if isinstance(error, DraError) and not isinstance(error, ValueError):
                raise
            # A future accepts no StopIteration, and only a thread's own code can interrupt or cancel it.
            raise raised_by(self.driver, method, error, about) from error

    def close(self) -> None:
        """Release the threads; a thread that never returns cannot be stopped."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class DriverCalls(Calls):
    """Calls the methods of a driver on a node."""

    driver: Driver

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)


def is_being_cancelled() -> bool:
    """Return whether a `CancelledError` is for the running task, and not left over by code that it called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
