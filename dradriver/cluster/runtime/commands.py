"""Running the command-line tools of container engines."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dradriver.cluster.runtime.processes import send

__all__ = ["CommandResult", "run"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did.

    Attributes:
        code: its exit code, -1 when it was not there or took too long.
        output: what it wrote to stdout.
        error: what it wrote to stderr, or why it did not run.
    """

    code: int
    output: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.code == 0


async def run(
    *argv: str, timeout: float = 60, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> CommandResult:
    """Runs a command to its end; a command that takes longer than `timeout` seconds is killed."""
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
            # Not process.kill(): that one may reap the child, and asyncio would wait for it in vain.
            send([process.pid], signal.SIGKILL)
            await process.wait()
    return CommandResult(
        process.returncode or 0, output.decode(errors="replace"), errors.decode(errors="replace")
    )
