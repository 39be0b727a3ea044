"""Runs the command-line tools of container engines."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dradriver.cluster.runtime.processes import send_signal

__all__ = ["CommandResult", "run"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    Attributes:
        code: the exit code; -1 if the command does not exist or took too long.
        output: stdout of the command.
        error: stderr of the command, or why it did not run.
    """

    code: int
    output: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.code == 0


async def run(
    *argv: str, timeout: float = 60, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> CommandResult:
    """Run a command to its end. If the command takes longer than `timeout` seconds, it is killed."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=cwd,
        )
    except OSError as error:
        return CommandResult(-1, error=f"{argv[0]}: {error.strerror}")
    try:
        async with asyncio.timeout(timeout):
            output, errors = await process.communicate()
    except TimeoutError:
        return CommandResult(-1, error=f"{argv[0]} took longer than {timeout:g} s")
    finally:
        if process.returncode is None:
            # This is not process.kill(), which may reap the child, so that asyncio would wait for it forever.
            send_signal([process.pid], signal.SIGKILL)
            await process.wait()
    return CommandResult(
        process.returncode or 0, output.decode(errors="replace"), errors.decode(errors="replace")
    )
