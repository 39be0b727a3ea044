"""Runs drivers as child processes for each node, and restarts them when they exit.

An exit is reported with its cause: the signal, or the exit code with the last line that the process wrote.
After SIGKILL, no line is quoted, because a killed process cannot write the reason, and its earlier output is
about something else. A second message reports when the restarted process is ready.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver.cli.terminal.errors import USAGE
from dradriver.errors import DraError

__all__ = ["DriverProcess", "Supervisor", "describe_exit", "last_lines"]

_RESTART_SECONDS: Final = (0.5, 30.0)
"""Backoff: seconds before the first restart, and the maximum. The seconds double with each restart."""
_HEALTHY_SECONDS: Final = 60.0
"""Seconds of uptime after which a process counts as healthy, and the backoff starts anew."""
_GRACE_SECONDS: Final = 30.0
"""Seconds between SIGTERM and SIGKILL."""
_POLL_SECONDS: Final = 0.2
"""Seconds between two checks whether a driver is ready again."""
_LOG_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \S+ (DEBUG|INFO) ")


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """One driver on one node, or a pool driver.

    Attributes:
        driver: name by which `dradriver run` finds the driver.
        node: name of the node; empty for a pool driver.
        kubeconfig: identity of the process.
        directory: folder of the node, with `plugins`, `plugins_registry`, `cdi` and the log.
        simulate: value of `$DRADRIVER_SIMULATE` if the environment does not set it.
        name: name of the driver in the cluster. On a node, the folder with the driver's files has this name.
        environment: further environment variables of the process.
    """

    driver: str
    node: str
    kubeconfig: Path
    directory: Path
    simulate: str = field(default="auto", kw_only=True)
    name: str = field(default="", kw_only=True)
    environment: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    @property
    def where(self) -> str:
        """Where the process runs, for messages."""
        return f"on {self.node}" if self.node else "for the cluster"

    @property
    def log(self) -> Path:
        """File with the output of the process."""
        return self.directory / f"{self.driver}.log"

    @property
    def command(self) -> Sequence[str]:
        """The command line."""
        run = (sys.executable, "-m", "dradriver.cli", "run", self.driver, f"--kubeconfig={self.kubeconfig}")
        if not self.node:
            return run
        return (
            *run,
            f"--node-name={self.node}",
            f"--plugins-dir={self.directory / 'plugins'}",
            f"--registry-dir={self.directory / 'plugins_registry'}",
            f"--cdi-dir={self.directory / 'cdi'}",
        )

    def ready_since(self) -> float | None:
        """Return the time since which the process has been ready. Blocks, because it reads files.

        Returns:
            Seconds since the epoch. None while the process is not ready. Always None for a pool driver, which
            has no files.
        """
        from dradriver.node.reporting.instance_file import read_instances  # noqa: PLC0415 - slow to import (gRPC)

        if not (self.name and self.node):
            return None
        with suppress(DraError):
            instances = read_instances(self.directory / "plugins" / self.name)
            return max((each.since for each in instances if not each.missing and each.runs), default=None)
        return None


class Supervisor:
    """Keeps driver processes running: `async with Supervisor(processes, report)`.

    Args:
        processes: the processes to run.
        report: called with one line when a process exits, and when the restarted process is ready.
    """

    def __init__(self, processes: Sequence[DriverProcess], report: Callable[[str], None]) -> None:
        self._processes = processes
        self._report = report
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Supervisor":
        self._tasks = [
            asyncio.create_task(self._supervise(each), name=f"{each.driver} {each.where}")
            for each in self._processes
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _supervise(self, spec: DriverProcess) -> None:
        clock = asyncio.get_running_loop().time
        delay, longest = _RESTART_SECONDS
        died_at: float | None = None
        while True:
            began = clock()
            code, output = await self._run(spec, died_at)
            died_at = time.time()
            message = f"driver {spec.driver} {spec.where} {describe_exit(code)}{output}"
            if code == USAGE:
                self._report(f"{message}; not restarted because the settings are wrong; log: {spec.log}")
                return
            delay = _RESTART_SECONDS[0] if clock() - began > _HEALTHY_SECONDS else delay
            self._report(f"{message}; restarting in {delay:g} s; log: {spec.log}")
            await asyncio.sleep(delay)
            delay = min(delay * 2, longest)

    async def _run(self, spec: DriverProcess, died_at: float | None) -> tuple[int, str]:
        """Run the process until it exits. If the call is cancelled, it terminates the process gracefully.

        Args:
            spec: the process.
            died_at: when the previous process exited, in seconds since the epoch; None for the first process.

        Returns:
            The exit code, and the reason to append to a message, from the process's output; "" if it gave none.
        """
        begin = _size(spec.log)
        process = await _start(spec)
        reporting = asyncio.create_task(self._report_restart(spec, died_at), name=f"restart of {spec.driver}")
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _terminate(process)
            raise
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
        return code, "" if code == -signal.SIGKILL else _last_output(spec.log, begin)

    async def _report_restart(self, spec: DriverProcess, died_at: float | None) -> None:
        """Report when the driver is ready after a restart."""
        if died_at is None:
            return
        if not (spec.name and spec.node):
            self._report(
                f"driver {spec.driver} {spec.where} was restarted {_describe_moment(died_at, time.time())}"
            )
            return
        while True:
            since = await asyncio.to_thread(spec.ready_since)
            if since is not None and since >= died_at:
                break
            await asyncio.sleep(_POLL_SECONDS)
        self._report(f"driver {spec.driver} {spec.where} is ready again {_describe_moment(died_at, since)}")


async def _start(spec: DriverProcess) -> asyncio.subprocess.Process:
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    with spec.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *_parent_death_command(),
            *spec.command,
            # A laptop has no accelerators, so drivers simulate accelerators unless the variable is set.
            env={"DRADRIVER_SIMULATE": spec.simulate, **os.environ, **spec.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C in the terminal must reach only this process, which ends its children in order.
            start_new_session=True,
        )


def _describe_moment(died_at: float, moment: float) -> str:
    """Return the time of day, and the seconds since the exit."""
    return f"at {time.strftime('%H:%M:%S', time.localtime(moment))}, {moment - died_at:.1f} s after the exit"


def _parent_death_command() -> Sequence[str]:
    """Return a command prefix that makes the kernel send SIGTERM to a child if this process dies.

    The result is empty if the program `setpriv` is not installed.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM") if setpriv else ()


async def _terminate(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def describe_exit(code: int) -> str:
    """Return how a process ended.

    Args:
        code: return code in the form of `subprocess`: a negative code is the number of a signal.
    """
    return f"was killed by signal {-code} ({_signal(-code)})" if code < 0 else f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _last_output(log: Path, begin: int) -> str:
    """Return `: ` and the last line that a process wrote before its exit.

    The result is empty if this line is an ordinary log line, because then it does not give the reason of the
    exit.
    """
    last = last_lines(log, 1, begin)
    return "" if not last or _LOG_LINE.match(last) else f": {last}"


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, count: int, begin: int = 0) -> str:
    """Return the last lines of a log, for a message; empty if the log has no lines.

    Args:
        log: the file.
        count: maximum number of lines.
        begin: number of bytes to skip at the beginning, because an earlier process wrote them.
    """
    try:
        return "\n".join(log.read_bytes()[begin:].decode(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
