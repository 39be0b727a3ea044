"""A pytest plugin: a time limit ends a test's set-up, call and tear-down, each separately.

pytest-timeout reads the limits: `timeout` in `pyproject.toml`, `--timeout` and `@pytest.mark.timeout`. This
module sets the timers, because pytest-timeout's timer has these gaps:

- A failed test cancels it, so fixtures are torn down without a limit after a failure.
- It fires once, so a finalizer that waits forever after the first timeout never ends.
- asyncio keeps an exception in a task that no code awaits, and the test waits on.

After the limit, `TimeIsOver` fails the phase, repeatedly until the phase ends, and the run continues with the
next test. A phase that does not end by this is ended with its process, which prints the stacks of its threads:
pytest-xdist reports the test as failed and continues with a new process. A process that does not exit after its
last test, because one of its threads never ends, is ended too.
"""

import asyncio
import contextlib
import faulthandler
import gc
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any, Final

import pytest
import pytest_timeout

SECONDS: Final = pytest.StashKey[float]()
"""The limit of a test's phases."""
STDERR: Final = pytest.StashKey[int]()
"""A descriptor of the process's own stderr, which pytest captures while a test runs."""
AGAIN_SECONDS = 5.0
"""How long a phase may go on after `TimeIsOver` before it is raised again."""
GRACE_SECONDS = 60.0
"""How long a phase may take after its limit, and a process after its last test, before the process is ended."""


class TimeIsOver(pytest.fail.Exception, SystemExit):  # type: ignore[misc, name-defined]
    """A phase of a test took too long.

    It is a failure of pytest's, after which pytest still runs the other finalizers; and a SystemExit, which
    asyncio passes on, out of whatever task or callback it is raised in, and stops the loop.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Keep the process's own stderr; pytest does not capture it yet."""
    config.stash[STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Set the limit for the exit."""
    faulthandler.dump_traceback_later(GRACE_SECONDS, exit=True, file=config.stash[STDERR])


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Replace pytest-timeout's timer: the limit begins with each phase."""
    item.stash[SECONDS] = settings.timeout
    return True


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Replace pytest-timeout's hook, which a failure also calls: the limit ends with each phase."""
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Limit the set-up of the test's fixtures."""
    with limit(item, "set-up"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Limit the test."""
    with limit(item, "call"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Limit the tear-down of the test's fixtures that no later test shares."""
    with limit(item, "tear-down"):
        return (yield)


def pytest_enter_pdb() -> None:
    """Stop the timers for a debugger session."""
    stop()


@contextlib.contextmanager
def limit(item: pytest.Item, phase: str) -> Iterator[None]:
    """Set a time limit for the body."""
    seconds = item.stash.get(SECONDS, 0)
    if not seconds or pytest_timeout.is_debugging():
        yield
        return

    over = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal over
        over = True
        print_stacks()
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        raise TimeIsOver(f"{phase} took longer than {seconds:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=item.config.stash[STDERR])
    try:
        yield
    finally:
        stop()
        if over:
            # Interrupted objects are garbage now. Their finalizers must not run while pytest parses the source
            # for its report: Python 3.11 can't parse while it parses, and printing a traceback parses.
            gc.collect()


def stop() -> None:
    """Stop both timers."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def print_stacks() -> None:
    """Print the stacks of the running loop's tasks, the asynchronous generators and all other threads."""
    with contextlib.suppress(RuntimeError):
        for task in asyncio.all_tasks():
            print_awaits(f"Task {task.get_name()}", task.get_coro())
        # A task does not lead to the fixture that it finalizes: what awaits a generator's next step is opaque.
        for each in gc.get_objects():
            if inspect.isasyncgen(each) and each.ag_running:
                print_awaits(f"Asynchronous generator {each.__qualname__}", each)
    for thread in threading.enumerate():
        frame = sys._current_frames().get(thread.ident or 0)
        if frame is not None and thread is not threading.current_thread():
            print(f"Thread {thread.name}:", file=sys.stderr)
            traceback.print_stack(frame, file=sys.stderr)


def print_awaits(what: str, awaitable: object) -> None:
    """Print the frames of an awaitable and of those that it awaits, the innermost last."""
    print(f"{what}:", file=sys.stderr)
    while awaitable is not None:
        frame: FrameType | None = first(awaitable, "cr_frame", "ag_frame", "gi_frame")
        if frame is not None:
            traceback.print_stack(frame, limit=1, file=sys.stderr)
        awaitable = first(awaitable, "cr_await", "ag_await", "gi_yieldfrom")


def first(of: object, *names: str) -> Any:
    """Return the first of these attributes that the object has, or None."""
    return next((getattr(of, name) for name in names if hasattr(of, name)), None)
