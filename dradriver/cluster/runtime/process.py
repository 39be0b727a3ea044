"""Runs containers as plain processes, with the environment of the CDI edits and no isolation."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Sequence

from dradriver.cluster.runtime.base import PAUSE, ContainerSpec, ContainerStartError, format_rejections
from dradriver.cluster.runtime.cdi_specs import find_edits
from dradriver.cluster.runtime.processes import find_processes, send_signal

__all__ = ["ProcessRuntime"]

_OWNER = "DRADRIVER_CONTAINER_OWNER"
_ID = "DRADRIVER_CONTAINER_ID"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProcessRuntime:
    """Runs each container as a process of this machine."""

    name = "process"

    def __init__(self, rejections: Sequence[str] = ()) -> None:
        self._rejections = rejections

    def describe(self) -> str:
        """Return one sentence for the user."""
        return (
            "containers are plain processes of this machine: they get the environment of their CDI devices, "
            f"but see all files and devices of the machine{format_rejections(self._rejections)}"
        )

    async def describe_image_use(self, image: str) -> str:
        """Return a note that the image is not used."""
        return f"image {image} is not used: the container is a plain process of this machine" if image else ""

    def parse_log_line(self, line: bytes) -> bytes:
        """Return the line, because the log contains the process's output unchanged."""
        return line

    async def start(self, spec: ContainerSpec) -> "PlainProcess":
        """Start the process in its own session.

        Raises:
            ContainerStartError: a CDI device is unknown, or the program can't be started.
        """
        edits = await asyncio.to_thread(find_edits, spec.cdi_folder, spec.cdi_devices)
        # Descendants inherit the environment. It contains the marks, so clean() finds all descendants.
        env = {
            "PATH": _DEFAULT_PATH,
            "HOSTNAME": spec.hostname,
            **spec.env,
            **dict(entry.split("=", 1) for entry in edits.env if "=" in entry),
            _OWNER: spec.owner,
            _ID: spec.id,
        }
        argv = spec.argv or PAUSE
        if await asyncio.to_thread(shutil.which, argv[0], path=env["PATH"]) is None:
            raise ContainerStartError("RunContainerError", f"exec: {argv[0]!r}: executable file not found")
        log = await asyncio.to_thread(os.open, spec.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=env,
                cwd=spec.working_dir or "/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise ContainerStartError("RunContainerError", f"exec {argv[0]!r}: {error}") from error
        finally:
            os.close(log)
        return PlainProcess(spec.id, process)

    async def clean(self, owner: str) -> None:
        """Kill every process that has the owner's mark in its environment."""
        await _kill_marked(f"{_OWNER}={owner}")


class PlainProcess:
    """A process that represents a container."""

    def __init__(self, container_id: str, process: asyncio.subprocess.Process) -> None:
        self.id = f"process://{container_id}"
        self._mark = f"{_ID}={container_id}"
        self._process = process
        self._reaped = asyncio.create_task(self._reap(), name=f"container {container_id}")

    async def wait(self) -> int:
        """Wait until the process and all of its descendants are gone, and return the exit code."""
        return await asyncio.shield(self._reaped)

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM to the process, and SIGKILL after the grace period."""
        self._send(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self.wait()
                return
        self._send(signal.SIGKILL)
        await self.wait()

    def _send(self, number: signal.Signals) -> None:
        # This is not process.send_signal(), which may reap the child, so that asyncio would miss the exit code.
        if self._process.returncode is None:
            send_signal([self._process.pid], number)

    async def _reap(self) -> int:
        code = await self._process.wait()
        await _kill_marked(self._mark)
        return code if code >= 0 else 128 - code


async def _kill_marked(mark: str) -> None:
    """Kill all processes with this mark, until none is left.

    One pass is not enough, because a process may start another while the list of processes is read.
    """
    while pids := await asyncio.to_thread(find_processes, mark):
        send_signal(pids, signal.SIGKILL)
        await asyncio.sleep(0.01)
