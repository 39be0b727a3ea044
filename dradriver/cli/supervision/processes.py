"""One driver process: its command line, environment and log."""

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver.errors import DraError

__all__ = ["DriverProcess", "start_process", "terminate_process"]

_GRACE_SECONDS: Final = 30.0
"""Seconds between SIGTERM and SIGKILL."""


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


async def start_process(spec: DriverProcess) -> asyncio.subprocess.Process:
    """Start a process, which appends its output to the log.

    If this process dies, the kernel sends SIGTERM to the new process.

    Args:
        spec: the process.
    """
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


def _parent_death_command() -> Sequence[str]:
    """Return a command prefix that makes the kernel send SIGTERM to a child if this process dies.

    The result is empty if the program `setpriv` is not installed.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM") if setpriv else ()


async def terminate_process(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM and wait for the end; after 30 s send SIGKILL.

    Args:
        process: the process. It may have ended already.
    """
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
