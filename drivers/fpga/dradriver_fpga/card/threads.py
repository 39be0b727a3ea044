"""Calls that block for minutes, on a thread of their own each."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

__all__ = ["on_own_thread"]


async def on_own_thread(name: str, action: Callable[[], None]) -> None:
    """Runs `action` to its end, even when the caller is cancelled; a process that ends does not wait for it."""
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
        with contextlib.suppress(RuntimeError):  # the loop may be gone by now
            loop.call_soon_threadsafe(finish, problem)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        await done
    finally:
        if done.done() and not done.cancelled():
            thread.join()  # it has told its end already
