"""Drivers as child processes: started for each node, started again when they die."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver.cli.errors import USAGE

__all__ = ["DriverProcess", "Supervisor", "last_lines"]

_PAUSES: Final = (0.5, 30.0)
"""Seconds before the first and at most before a later restart; they double while the process keeps dying."""
_SETTLED: Final = 60.0
"""Seconds after which a process counts as healthy, so that the next restart is quick again."""
_GRACE: Final = 30.0
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
    """

    driver: str
    node: str
    kubeconfig: Path
    directory: Path
    simulate: str = field(default="auto", kw_only=True)

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


class Supervisor:
    """Keeps driver processes running: `async with Supervisor(processes, say)`.

    Args:
        processes: what to run.
        say: is told in one line when a process dies.
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
        while True:
            began = clock()
            code = await _run(wanted)
            told = f"driver {wanted.driver} {wanted.where} ended with {_ended(code)}{_reason(wanted.log)}"
            if code == USAGE:
                self._say(f"{told}; not started again, the log is {wanted.log}")
                return
            pause = _PAUSES[0] if clock() - began > _SETTLED else pause
            self._say(f"{told}; starting it again in {pause:g} s, the log is {wanted.log}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)


async def _run(wanted: DriverProcess) -> int:
    """Runs the process to its end; ends it gracefully when cancelled."""
    wanted.log.parent.mkdir(parents=True, exist_ok=True)
    with wanted.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
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
    try:
        return await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise


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


def _ended(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _reason(log: Path) -> str:
    """The last words of a process that died; what it logged while all was well is none."""
    last = last_lines(log, 1)
    return "" if not last or _LOGGED.match(last) else f": {last}"


def last_lines(log: Path, count: int) -> str:
    """The last lines of a log, for a message; empty when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
