"""Show what the process does, for developers: `/debug/tasks` and `/debug/profile?seconds=N`."""

import asyncio
import cProfile
import io
import pstats
from collections.abc import Iterator
from functools import partial
from typing import Final

from aiohttp import web

__all__ = ["add_profiling"]

_LONGEST_SECONDS: Final = 60.0
_LINES: Final = 60


def add_profiling(app: web.Application) -> None:
    """Add the paths to an application. They are for an operator, not for a network."""
    app.router.add_get("/debug/tasks", _show_tasks)
    app.router.add_get("/debug/profile", partial(_profile, asyncio.Lock()))


async def _show_tasks(_request: web.Request) -> web.Response:
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        lines += [task.get_name(), *_await_chain(task.get_coro())]
    return web.Response(text="\n".join((*lines, "")))


def _await_chain(awaited: object) -> Iterator[str]:
    """Yield where each coroutine waits for the next one. The stack of a task has only the first coroutine."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


async def _profile(running: asyncio.Lock, request: web.Request) -> web.Response:
    """Profile the thread of the event loop, which takes all decisions."""
    try:
        seconds = float(request.query.get("seconds", "5"))
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise web.HTTPBadRequest(text=f"seconds: must be a number above 0, at most {_LONGEST_SECONDS:.0f}\n")
    if running.locked():
        raise web.HTTPConflict(text="another profile is being recorded\n")
    profile = cProfile.Profile()
    async with running:
        profile.enable()
        try:
            await asyncio.sleep(seconds)
        finally:
            profile.disable()
    output = io.StringIO()
    pstats.Stats(profile, stream=output).sort_stats("cumulative").print_stats(_LINES)
    return web.Response(text=output.getvalue())
