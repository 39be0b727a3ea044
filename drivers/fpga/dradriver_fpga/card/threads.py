"""Runs calls that block for minutes, each on its own thread."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

__all__ = ["on_own_thread"]


async def on_own_thread(name: str, action: Callable[[], None]) -> None:
    """Run `action` to its end, even if the caller is cancelled. The end of the process does not wait for it."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def finish(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        problem: Exception | None = None
        try:
            action()
        except Exception as error:
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(finish, problem)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        await done
    finally:
        if done.done() and not done.cancelled():
            thread.join()  # returns at once: the thread has reported its end
