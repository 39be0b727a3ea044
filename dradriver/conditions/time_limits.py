"""Calls of the author's `attach` and `detach`, which may take minutes but not for ever."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from dradriver.aio.tasks import end
from dradriver.errors import DraError
from dradriver.node.driver_calls import Calls

__all__ = ["OverdueError", "call_within"]


class OverdueError(DraError):
    """A method of the driver did not return in time, and `overdue` was awaited."""


async def call_within(
    calls: Calls,
    seconds: float,
    method: Callable[..., Awaitable[None] | None],
    *arguments: object,
    about: str,
    overdue: Callable[[str], Awaitable[None]],
) -> None:
    """Calls a method of the driver; returns or raises when it is not running any more.

    A coroutine that takes too long is cancelled. A plain method can't be stopped: it is waited for, so that
    nothing else is done with its device meanwhile.

    Args:
        calls: calls the driver.
        seconds: how long the method may take.
        method: the method.
        arguments: what it is called with.
        about: as with `Calls.call`.
        overdue: is awaited as soon as the time is over, with what went wrong.

    Raises:
        OverdueError: it took longer.
        DraError: what the method raised, or `overdue`.
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
            work.exception()  # nobody asks for what was raised after the time was over
