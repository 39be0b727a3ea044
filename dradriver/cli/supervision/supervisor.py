"""Keeps driver processes running, and restarts them when they exit or when their code changes.

An exit is reported with its cause: the signal, or the exit code with the last line that the process wrote.
After SIGKILL, no line is quoted, because a killed process cannot write the reason, and its earlier output is
about something else. A second message reports when the restarted process is ready.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dradriver.cli.supervision.exits import describe_exit, last_output, log_size
from dradriver.cli.supervision.processes import DriverProcess, start_process, terminate_process
from dradriver.cli.terminal.errors import USAGE

__all__ = ["ProcessMessage", "Supervisor"]

_RESTART_SECONDS: Final = (0.5, 30.0)
"""Backoff: seconds before the first restart, and the maximum. The seconds double with each restart."""
_HEALTHY_SECONDS: Final = 60.0
"""Seconds of uptime after which a process counts as healthy, and the backoff starts anew."""
_POLL_SECONDS: Final = 0.2
"""Seconds between two checks whether a driver is ready again."""


class ProcessMessage(NamedTuple):
    """What happened to a process.

    Attributes:
        text: what happened. If the same happens again, the text is the same.
        detail: what differs each time, such as the seconds until the restart; empty if there is nothing.
    """

    text: str
    detail: str = ""

    def __str__(self) -> str:
        return self.text + self.detail


class _Ended(NamedTuple):
    """The end of a process.

    Attributes:
        code: the exit code; None if the process was terminated for a restart, or never started.
        description: how the process ended, with the reason; "" if it was terminated for a restart.
    """

    code: int | None
    description: str = ""


@dataclass
class _Slot:
    """A process that must run, and the request to restart it."""

    spec: DriverProcess
    restart: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""


class Supervisor:
    """Keeps driver processes running: `async with Supervisor(processes, report)`.

    Args:
        processes: the processes to run.
        report: called when a process exits, when it is restarted, and when the restarted process is ready.
    """

    def __init__(self, processes: Sequence[DriverProcess], report: Callable[[ProcessMessage], None]) -> None:
        self._slots = [_Slot(each) for each in processes]
        self._report = report
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Supervisor":
        self._tasks = [
            asyncio.create_task(self._supervise(each), name=f"{each.spec.driver} {each.spec.where}")
            for each in self._slots
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def restart(self, driver: str, reason: str) -> None:
        """Ask for a restart of all processes of a driver. A process that waits for its restart starts at once.

        Args:
            driver: name by which `dradriver run` finds the driver.
            reason: the reason, for the message.
        """
        for slot in self._slots:
            if slot.spec.driver == driver:
                slot.reason = reason
                slot.restart.set()

    async def _supervise(self, slot: _Slot) -> None:
        spec, clock = slot.spec, asyncio.get_running_loop().time
        subject = f"driver {spec.driver} {spec.where}"
        delay, longest = _RESTART_SECONDS
        died_at: float | None = None
        while True:
            began = clock()
            code, description = await self._run(slot, died_at)
            died_at = time.time()
            if description:
                text = f"{subject} {description}"
                delay = _RESTART_SECONDS[0] if clock() - began > _HEALTHY_SECONDS else delay
                if code == USAGE:
                    text += "; not restarted because the settings are wrong"
                    self._report(ProcessMessage(text, f"; log: {spec.log}"))
                    await slot.restart.wait()
                else:
                    self._report(ProcessMessage(text, f"; restarting in {delay:g} s; log: {spec.log}"))
                    with suppress(TimeoutError):
                        async with asyncio.timeout(delay):
                            await slot.restart.wait()
                    delay = min(delay * 2, longest)
            if slot.restart.is_set():
                slot.restart.clear()
                self._report(ProcessMessage(f"{subject} is restarted: ", slot.reason))
                delay = _RESTART_SECONDS[0]

    async def _run(self, slot: _Slot, died_at: float | None) -> _Ended:
        """Run one process until it exits, or until a restart is requested.

        Args:
            slot: the process.
            died_at: time at which the previous process exited; None for the first process.

        Returns:
            How the process ended.
        """
        spec = slot.spec
        begin = log_size(spec.log)
        try:
            process = await start_process(spec)
        except OSError as error:  # such as a full disk, or a log folder that was removed
            where = f"{error.filename}: " if error.filename else ""
            return _Ended(None, f"cannot be started: {where}{error.strerror or error}")
        exiting = asyncio.create_task(process.wait(), name=f"exit of {spec.driver}")
        requested = asyncio.create_task(slot.restart.wait(), name=f"request to restart {spec.driver}")
        reporting = asyncio.create_task(self._report_restart(spec, died_at), name=f"restart of {spec.driver}")
        try:
            await asyncio.wait({exiting, requested}, return_when=asyncio.FIRST_COMPLETED)
            if not exiting.done():
                await terminate_process(process)
                return _Ended(None)
        except asyncio.CancelledError:
            await terminate_process(process)
            raise
        finally:
            for task in (exiting, requested, reporting):
                task.cancel()
            await asyncio.gather(exiting, requested, reporting, return_exceptions=True)
        code = exiting.result()
        reason = "" if code == -signal.SIGKILL else last_output(spec.log, begin)
        return _Ended(code, f"{describe_exit(code)}{reason}")

    async def _report_restart(self, spec: DriverProcess, died_at: float | None) -> None:
        """Report when the driver is ready after a restart."""
        if died_at is None:
            return
        subject = f"driver {spec.driver} {spec.where}"
        if not (spec.name and spec.node):
            self._report(ProcessMessage(f"{subject} was restarted", _describe_moment(died_at, time.time())))
            return
        while True:
            since = await asyncio.to_thread(spec.ready_since)
            if since is not None and since >= died_at:
                break
            await asyncio.sleep(_POLL_SECONDS)
        self._report(ProcessMessage(f"{subject} is ready again", _describe_moment(died_at, since)))


def _describe_moment(died_at: float, moment: float) -> str:
    """Return the time of day, and the seconds since the exit."""
    return f" at {time.strftime('%H:%M:%S', time.localtime(moment))}, {moment - died_at:.1f} s after the exit"
