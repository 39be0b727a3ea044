"""Runs drivers as child processes for each node, and restarts them when they die.

A death is reported with its cause: the signal, or the exit code with the last line that this process wrote.
After SIGKILL no line is quoted: the process could not write the reason, and its earlier output is about other
events. A second message reports that the next process is ready.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver.cli.terminal.errors import USAGE
from dradriver.errors import DraError

__all__ = ["DriverProcess", "Supervisor", "how_it_ended", "last_lines"]

_PAUSES: Final = (0.5, 30.0)
"""Seconds before the first restart, and the maximum. The pause doubles while the process keeps dying."""
_SETTLED: Final = 60.0
"""Seconds of uptime after which a process counts as healthy, and the next restart is quick again."""
_GRACE: Final = 30.0
_LOOK: Final = 0.2
"""Seconds between two checks whether a driver is ready again."""
_LOGGED: Final = re.compile(r"\d{4}-\d\d-\d\d \S+ (DEBUG|INFO) ")


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """One driver on one node, or a pool driver.

    Attributes:
        driver: name by which `dradriver run` finds it.
        node: name of the node; empty for a pool driver, which runs on none.
        kubeconfig: its identity on that node.
        directory: folder of the node, with `plugins`, `plugins_registry`, `cdi` and the log.
        simulate: value of `$DRADRIVER_SIMULATE` if the environment does not set it.
        name: name of the driver in the cluster. A driver on a node keeps its files under this name.
    """

    driver: str
    node: str
    kubeconfig: Path
    directory: Path
    simulate: str = field(default="auto", kw_only=True)
    name: str = field(default="", kw_only=True)

    @property
    def where(self) -> str:
        """Where it runs, for messages."""
        return f"on {self.node}" if self.node else "for the cluster"

    @property
    def log(self) -> Path:
        """File of its stderr."""
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
        """Return the time since which the process is ready, in seconds since the epoch. Blocks on the disk.

        Returns:
            None while it is not ready, and for a pool driver, which has no files.
        """
        from dradriver.node.reporting.instance_file import read_instances  # noqa: PLC0415 - slow to import (gRPC)

        if not (self.name and self.node):
            return None
        with suppress(DraError):
            found = read_instances(self.directory / "plugins" / self.name)
            return max((each.since for each in found if not each.missing and each.runs), default=None)
        return None


class Supervisor:
    """Keeps driver processes running: `async with Supervisor(processes, say)`.

    Args:
        processes: the processes to run.
        say: called with one line when a process dies, and when it is ready again.
    """

    def __init__(self, processes: Sequence[DriverProcess], say: Callable[[str], None]) -> None:
        self._processes = processes
        self._say = say
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Supervisor":
        self._tasks = [
            asyncio.create_task(self._keep(each), name=f"{each.driver} {each.where}")
            for each in self._processes
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, wanted: DriverProcess) -> None:
        clock = asyncio.get_running_loop().time
        pause, longest = _PAUSES
        died: float | None = None
        while True:
            began = clock()
            code, words = await self._run(wanted, died)
            died = time.time()
            told = f"driver {wanted.driver} {wanted.where} {how_it_ended(code)}{words}"
            if code == USAGE:
                self._say(f"{told}; not started again, the log is {wanted.log}")
                return
            pause = _PAUSES[0] if clock() - began > _SETTLED else pause
            self._say(f"{told}; starting it again in {pause:g} s, the log is {wanted.log}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _run(self, wanted: DriverProcess, died: float | None) -> tuple[int, str]:
        """Run the process to its end. If the call is cancelled, the process is ended gracefully.

        Args:
            wanted: the process.
            died: when the process before it died, in seconds since the epoch.

        Returns:
            The exit code, and the last output of the process as the end of a message.
        """
        begin = _size(wanted.log)
        process = await _start(wanted)
        returning = asyncio.create_task(self._tell_return(wanted, died), name=f"return of {wanted.driver}")
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            returning.cancel()
            await asyncio.gather(returning, return_exceptions=True)
        return code, "" if code == -signal.SIGKILL else _reason(wanted.log, begin)

    async def _tell_return(self, wanted: DriverProcess, died: float | None) -> None:
        """Report when the driver is ready again after it died."""
        if died is None:
            return
        if not (wanted.name and wanted.node):
            self._say(f"driver {wanted.driver} {wanted.where} was started again {_after(died, time.time())}")
            return
        while True:
            since = await asyncio.to_thread(wanted.ready_since)
            if since is not None and since >= died:
                break
            await asyncio.sleep(_LOOK)
        self._say(f"driver {wanted.driver} {wanted.where} is back: ready {_after(died, since)}")


async def _start(wanted: DriverProcess) -> asyncio.subprocess.Process:
    wanted.log.parent.mkdir(parents=True, exist_ok=True)
    with wanted.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *_dying_with_us(),
            *wanted.command,
            # A laptop has no accelerators, so drivers simulate them unless the user sets the variable.
            env={"DRADRIVER_SIMULATE": wanted.simulate, **os.environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C in the terminal must reach only this process, which ends its children in order.
            start_new_session=True,
        )


def _after(died: float, moment: float) -> str:
    """Return a time, and how long it was after a death."""
    return f"at {time.strftime('%H:%M:%S', time.localtime(moment))}, {moment - died:.1f} s after it died"


def _dying_with_us() -> Sequence[str]:
    """Return the command that makes a child get SIGTERM if this process is killed; empty without setpriv."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM") if setpriv else ()


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def how_it_ended(code: int) -> str:
    """Return how a process ended, from Python's return code. A negative code is a signal."""
    return f"was killed by signal {-code} ({_signal(-code)})" if code < 0 else f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _reason(log: Path, begin: int) -> str:
    """Return the last output of a process that died. A regular log line is no reason."""
    last = last_lines(log, 1, begin)
    return "" if not last or _LOGGED.match(last) else f": {last}"


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, count: int, begin: int = 0) -> str:
    """Return the last lines of a log, for a message; empty if there are none.

    Args:
        log: the file.
        count: largest number of lines.
        begin: number of bytes to skip, which an earlier process wrote.
    """
    try:
        return "\n".join(log.read_bytes()[begin:].decode(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
