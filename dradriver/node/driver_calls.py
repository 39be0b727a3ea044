"""Call an author's methods: an `async def` on the event loop, a plain `def` in a worker thread.

If a method raises an exception, it is converted to a `DriverError` that names the method and the author's file
and line. A `DraError` is not converted, because the method raises it on purpose. The traceback is logged at
level debug.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar, cast

from dradriver.driver import DeviceSource, Driver, DriverBase
from dradriver.driver.source_locations import find_definition, find_raise, format_location
from dradriver.errors import DraError, DriverError
from dradriver.node.errors import StillRunningError

__all__ = ["Calls", "DriverCalls", "SourceCalls", "describe_method", "is_being_cancelled", "to_driver_error"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS: Final = 64
"""Maximum number of methods that run in threads at the same time; further calls wait for a thread."""


def to_driver_error(
    driver: DriverBase, method: Callable[..., object], error: BaseException, about: str = ""
) -> DriverError:
    """Convert an exception of a method to an error whose message is one line with the author's file and line.

    The traceback is logged at level debug. The log omits the exception's message, which may quote secret values
    of a claim.

    Args:
        driver: the driver that has the method.
        method: the method.
        error: the exception.
        about: text that follows the method's name in the message, such as ` of claim default/led`.
    """
    subject, kind = describe_method(driver, method, about), type(error).__name__
    if _log.isEnabledFor(logging.DEBUG):
        without_message = DriverError(f"raised {kind}").with_traceback(error.__traceback__)
        _log.debug("%s raised %s", subject, kind, exc_info=without_message)
    details = f"{kind}: {' '.join(str(error).splitlines())}" if str(error) else kind
    location = find_raise(error, type(driver)) or find_definition(method)
    return DriverError(f"{subject} raised {details}{format_location(location)}")


def describe_method(driver: DriverBase, method: Callable[..., object], about: str = "") -> str:
    """Return the start of a message about a method, such as `driver led.example.com: discover()`."""
    return f"driver {driver.name}: {getattr(method, '__name__', method)}(){about}"


class Calls:
    """Calls the methods of one driver, on a node or in the control plane; call `close()` at the end.

    Args:
        driver: the author's driver.
        guard: called before each method. It raises a DraError if the method must not be called any more.
    """

    driver: DriverBase

    def __init__(self, driver: DriverBase, guard: Callable[[], None] = lambda: None) -> None:
        self.driver = driver
        self._guard = guard
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"driver-{driver.name}")

    async def call(self, method: Callable[..., T | Awaitable[T]], *arguments: object, about: str = "") -> T:
        """Call a method and return its result.

        Args:
            method: a method of the driver.
            arguments: the arguments of the method.
            about: text that follows the method's name in error messages, such as ` of claim default/led`.

        Raises:
            DraError: the method raised a DraError on purpose.
            DriverError: the method raised any other exception, or canceled itself. A DraError that is also a
                `ValueError` reports an invalid value, so it counts as another exception. The exception is the
                `__cause__`.
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
            raise to_driver_error(self.driver, method, error, about) from error
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise to_driver_error(self.driver, method, error, about) from error
        except (Exception, SystemExit) as error:
            raise to_driver_error(self.driver, method, error, about) from error

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
        """Run the method; if it returns an iterator, the iterator is also read to its end in this thread."""
        try:
            outcome = method(*arguments)
            return cast(T, list(outcome)) if isinstance(outcome, Iterator) else outcome
        except BaseException as error:
            if isinstance(error, DraError) and not isinstance(error, ValueError):
                raise
            # All exceptions are converted: a future accepts no StopIteration, and a CancelledError or
            # KeyboardInterrupt in this thread can only come from the author's code.
            raise to_driver_error(self.driver, method, error, about) from error

    def close(self) -> None:
        """Release the threads; a method that never returns cannot be stopped."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class SourceCalls(Calls):
    """Calls the methods of a driver that publishes devices."""

    driver: DeviceSource

    def __init__(self, driver: DeviceSource, guard: Callable[[], None] = lambda: None) -> None:
        super().__init__(driver, guard)


class DriverCalls(SourceCalls):
    """Calls the methods of a driver on a node."""

    driver: Driver

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)


def is_being_cancelled() -> bool:
    """Return whether the running task is being canceled; if not, its code raised `CancelledError` itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
