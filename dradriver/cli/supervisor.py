"""Drivers as child processes: started for each node, started again when they die.

A death is reported with its cause: the signal, or the exit code with the last line that this process wrote.
After SIGKILL no line is quoted: the process could not say why, and what it wrote before is about other things.
When the next process is ready, that is reported too.
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
"""Seconds before the first and at most before a later restart; they double while the process keeps dying."""
_SETTLED: Final = 60.0
"""Seconds after which a process counts as healthy, so that the next restart is quick again."""
_GRACE: Final = 30.0
_LOOK: Final = 0.2
"""Seconds between two looks whether a driver is ready again."""
_LOGGED: Final = re.compile(r"\d{4}-\d\d-\d\d \S+ (DEBUG|INFO) ")


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """One driver on one node, or a pool driver.

    Attributes:
        driver: the name by which `dradriver run` finds it.
        node: the node's name; empty for a pool driver, which runs on none.
        kubeconfig: the identity that it has on that node.
        directory: the node's folder, with `plugins`, `plugins_registry` and `cdi`; where the log goes.
        simulate: what `$DRADRIVER_SIMULATE` is unless the environment has it.
        name: the driver's name in the cluster, under which a driver on a node keeps its files.
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
        """Where its stderr goes."""
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
        """Since when the process has been ready, in seconds since the epoch; blocks on the disk.

        Returns:
            None while it is not, and for a pool driver, which keeps no files.
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
        processes: what to run.
        say: is told in one line when a process dies, and when it is back.
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
        """Runs the process to its end; ends it gracefully when cancelled.

        Args:
            wanted: the process.
            died: when the one before it died, in seconds since the epoch.

        Returns:
            The exit code, and the process's last words as the end of a message.
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
        """Says when the driver is back after it died."""
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
            # A laptop has no accelerators: drivers that can simulate them do, unless the user says otherwise.
            env={"DRADRIVER_SIMULATE": wanted.simulate, **os.environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C in the terminal is for us; we end our children in order.
            start_new_session=True,
        )


def _after(died: float, moment: float) -> str:
    """When something was, and how long after a death."""
    return f"at {time.strftime('%H:%M:%S', time.localtime(moment))}, {moment - died:.1f} s after it died"


def _dying_with_us() -> Sequence[str]:
    """The command that makes a process get SIGTERM when we are killed; nothing where util-linux lacks it."""
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
    """How a process ended, given the code with which Python reports it: a signal's number is negative."""
    return f"was killed by signal {-code} ({_signal(-code)})" if code < 0 else f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _reason(log: Path, begin: int) -> str:
    """The last words of a process that died; what it logged while all was well is none."""
    last = last_lines(log, 1, begin)
    return "" if not last or _LOGGED.match(last) else f": {last}"


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, count: int, begin: int = 0) -> str:
    """The last lines of a log, for a message; empty when there is none.

    Args:
        log: the file.
        count: how many lines at most.
        begin: bytes that are skipped: an earlier process wrote them.
    """
    try:
        return "\n".join(log.read_bytes()[begin:].decode(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
