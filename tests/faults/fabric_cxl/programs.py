"""Programs that a test kills and starts again, as often as it likes."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver.cli.supervision import last_lines

SERVER: Final = Path(__file__).with_name("forks.py")


class Forks:
    """The process that starts programs; see `forks.py`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def start(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> int:
        """Start a program, and return its PID."""
        body = {"module": module, "arguments": arguments, "environment": environment, "log": str(log)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(json.dumps(body).encode() + b"\n")
            return int(await self._process.stdout.readline())


@asynccontextmanager
async def run_forks(*modules: str) -> AsyncIterator[Forks]:
    """Run the process that starts programs, with the modules that the programs need."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), *modules, stdin=PIPE, stdout=PIPE, env=environment
    )
    try:
        yield Forks(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@dataclass
class Program:
    """One program, and its present process.

    Attributes:
        forks: starts it.
        log: file with the output of all of its processes.
        kills: number of its kills.
        exits: number of processes that ended without a kill.
    """

    forks: Forks
    module: str
    arguments: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    kills: int = 0
    exits: int = 0
    _pid: int = 0
    _handle: int = -1

    async def start(self) -> None:
        """Start it, unless it runs."""
        if self._handle != -1:
            if not is_ended(self._handle):
                return
            self.exits += 1
            self._forget()
        self._pid = await self.forks.start(self.module, self.arguments, self.environment, self.log)
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(self._pid)

    async def kill(self) -> None:
        """Kill it with its children, and return when it has ended."""
        if self._handle == -1:
            return
        if is_ended(self._handle):
            self.exits += 1
        else:
            # Before the program leads a session of its own, only its PID is known.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGSTOP)
                own = os.getpgid(self._pid) == self._pid
                os.kill(-self._pid if own else self._pid, signal.SIGKILL)
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(self._handle, ended.set)
            await ended.wait()
            asyncio.get_running_loop().remove_reader(self._handle)
            self.kills += 1
        self._forget()

    def read_log(self) -> str:
        """Return the last lines of its output."""
        return last_lines(self.log, 12)

    def _forget(self) -> None:
        os.close(self._handle)
        self._handle = -1


def is_ended(handle: int) -> bool:
    """Return whether the process has ended."""
    try:
        signal.pidfd_send_signal(handle, 0)
    except ProcessLookupError:
        return True
    return False
