"""Call the author's `attach` and `detach` with a time limit of minutes."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from dradriver.aio.tasks import end
from dradriver.errors import DraError
from dradriver.node.driver_calls import Calls

__all__ = ["OverdueError", "call_within"]


class OverdueError(DraError):
    """A method of the driver did not return in time. The callback `overdue` was already awaited."""


async def call_within(
    calls: Calls,
    seconds: float,
    method: Callable[..., Awaitable[None] | None],
    *arguments: object,
    about: str,
    overdue: Callable[[str], Awaitable[None]],
) -> None:
    """Call a method of the driver; returns or raises only after the method has ended.

    A coroutine that takes too long is canceled. A plain method cannot be stopped: the call waits for it, so
    that nothing else uses its device meanwhile.

    Args:
        calls: calls the driver.
        seconds: the time limit of the method.
        method: the method.
        arguments: its arguments.
        about: as for `Calls.call`.
        overdue: awaited with the error message as soon as the time is over.

    Raises:
        OverdueError: the time limit was exceeded.
        DraError: the exception of the method, or of `overdue`.
    """
    name = getattr(method, "__name__", str(method))
    work = asyncio.create_task(calls.call(method, *arguments, about=about), name=f"{name}(){about}")
    try:
        done, _ = await asyncio.wait({work}, timeout=seconds)
        if done:
            return work.result()
        if inspect.iscoroutinefunction(method):
            work.cancel()
        problem: DraError = OverdueError(f"{name}() did not return within {seconds:g} s")
        try:
            await overdue(str(problem))
        except DraError as error:
            problem = error
        await asyncio.wait({work})
        raise problem
    finally:
        await end({work})
        if work.done() and not work.cancelled():
            work.exception()  # an exception after the time limit is not used
