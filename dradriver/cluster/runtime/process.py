"""Runs containers as plain processes, with the environment of the CDI edits and no isolation."""

import asyncio
import contextlib
import os
import shutil
import signal

from dradriver.cluster.runtime.base import PAUSE, ContainerSpec, ContainerStartError
from dradriver.cluster.runtime.cdi_specs import edits_for
from dradriver.cluster.runtime.processes import marked, send

__all__ = ["ProcessRuntime"]

_OWNER = "DRADRIVER_CONTAINER_OWNER"
_ID = "DRADRIVER_CONTAINER_ID"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProcessRuntime:
    """Runs each container as a process of this machine."""

    name = "process"

    def describe(self) -> str:
        """Return one sentence for the user."""
        return (
            "containers are plain processes of this machine: they get the environment of their CDI devices, "
            "but see all of its files and devices"
        )

    async def notice(self, image: str) -> str:
        """Return a note that the image is not used."""
        return f"image {image} is not used: the container is a plain process of this machine" if image else ""

    def text_of(self, line: bytes) -> bytes:
        """Return the line: the log holds the process's output unchanged."""
        return line

    async def start(self, spec: ContainerSpec) -> "PlainProcess":
        """Start the process in its own session.

        Raises:
            ContainerStartError: a CDI device is not known, or the program can't be started.
        """
        edits = await asyncio.to_thread(edits_for, spec.cdi_folder, spec.cdi_devices)
        # The marks are in the environment, which descendants inherit, so that clean() finds them all.
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
        """Kill every process that carries the owner's mark."""
        await _kill_marked(f"{_OWNER}={owner}")


class PlainProcess:
    """A process that represents a container."""

    def __init__(self, container_id: str, process: asyncio.subprocess.Process) -> None:
        self.id = f"process://{container_id}"
        self._mark = f"{_ID}={container_id}"
        self._process = process
        self._reaped = asyncio.create_task(self._reap(), name=f"container {container_id}")

    async def wait(self) -> int:
        """Return the exit code, once the process and all of its descendants are gone."""
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
        # Not process.send_signal(), which may reap the child, so that asyncio would miss the exit code.
        if self._process.returncode is None:
            send([self._process.pid], number)

    async def _reap(self) -> int:
        code = await self._process.wait()
        await _kill_marked(self._mark)
        return code if code >= 0 else 128 - code


async def _kill_marked(mark: str) -> None:
    """Kill until none is left: a process may start another one while the list is read."""
    while pids := await asyncio.to_thread(marked, mark):
        send(pids, signal.SIGKILL)
        await asyncio.sleep(0.01)
