"""Runs containers with runc alone. This module writes the OCI bundle and applies the CDI edits."""

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from dradriver.cluster.runtime.base import ContainerSpec, ContainerStartError, format_rejections
from dradriver.cluster.runtime.cdi_apply import apply_edits
from dradriver.cluster.runtime.cdi_specs import find_edits
from dradriver.cluster.runtime.commands import run
from dradriver.cluster.runtime.oci import build_oci_config
from dradriver.model.encoding.codec import canonical

__all__ = ["RuncRuntime", "probe_runc"]

_STATE: Final = Path("/run/dradriver-runc")
"""The folder in which runc stores the state of running containers, with one subfolder for each owner."""

# The overlay is in a mount namespace that ends with the container, so it need not be unmounted. The upper layer
# of the overlay is a tmpfs, because an upper layer can't be on another overlay, and the host's root may be an
# overlay. `cd -P` resolves symbolic links, because runc joins $PWD and the root's path, and rejects the result
# if it contains a link.
_RUN: Final = """set -e
cd -P "$1"
mkdir -p rootfs
mount -t tmpfs -o mode=755 tmpfs rootfs
mkdir rootfs/upper rootfs/work rootfs/root
mount -t overlay overlay -o lowerdir=/,upperdir=rootfs/upper,workdir=rootfs/work rootfs/root
mount --bind rootfs/root rootfs
exec runc --root "$2" --log error.log --log-format json run --bundle . --pid-file pid "$3"
"""
_POLL_SECONDS: Final = 0.02


class RuncRuntime:
    """Runs each container with `runc run` in the foreground."""

    name = "runc"

    def __init__(self, version: str, rejections: Sequence[str] = ()) -> None:
        self._version = version
        self._rejections = rejections

    def describe(self) -> str:
        """Return one sentence for the user."""
        return (
            f"containers are run by runc {self._version} on an overlay of this machine's files; the CDI edits "
            f"are applied by the embedded kubelet; no network{format_rejections(self._rejections)}"
        )

    async def describe_image_use(self, image: str) -> str:
        """Return a note that the image is not used."""
        if not image:
            return ""
        return (
            f"image {image} is not used: the container sees the machine's own files, its changes are discarded"
        )

    def parse_log_line(self, line: bytes) -> bytes:
        """Return the line, because the log contains the container's output unchanged."""
        return line

    async def start(self, spec: ContainerSpec) -> "RuncContainer":
        """Write the bundle and start the container.

        Raises:
            ContainerStartError: a CDI device is unknown, or runc failed. In this case, the message is runc's
                message.
        """
        state = _state_folder(spec.owner)
        await asyncio.to_thread(_write_bundle, spec, state)
        log = await asyncio.to_thread(os.open, spec.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            process = await asyncio.create_subprocess_exec(
                *("unshare", "-m", "sh", "-c", _RUN, "sh", str(spec.folder), str(state), spec.id),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal must reach only this process, which then ends the containers in order.
                start_new_session=True,
            )
        finally:
            os.close(log)
        container = RuncContainer(state, spec.id, process)
        await _wait_for_start(spec, process)
        return container

    async def clean(self, owner: str) -> None:
        """Kill and remove the owner's containers and their mounts."""
        state = _state_folder(owner)
        listed = await run("runc", "--root", str(state), "list", "--quiet")
        for container_id in listed.output.split():
            await run("runc", "--root", str(state), "delete", "--force", container_id)
        await asyncio.to_thread(shutil.rmtree, state, ignore_errors=True)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(_STATE.rmdir)


class RuncContainer:
    """A container that runc runs, as the child process `runc run`."""

    def __init__(self, state: Path, container_id: str, process: asyncio.subprocess.Process) -> None:
        self.id = f"runc://{container_id}"
        self._state = state
        self._name = container_id
        self._process = process

    async def wait(self) -> int:
        """Return the exit code."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM to the container's first process, and SIGKILL to all after the grace period."""
        await self._kill("TERM")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
                return
        await self._kill("KILL")
        await self._process.wait()

    async def _kill(self, name: str) -> None:
        await run("runc", "--root", str(self._state), "kill", self._name, name)


def _state_folder(owner: str) -> Path:
    return _STATE / sha256(owner.encode()).hexdigest()[:16]


def _write_bundle(spec: ContainerSpec, state: Path) -> None:
    config: dict[str, Any] = build_oci_config(spec)
    apply_edits(config, find_edits(spec.cdi_folder, spec.cdi_devices))
    (spec.folder / "config.json").write_bytes(canonical(config))
    state.mkdir(parents=True, exist_ok=True)


async def _wait_for_start(spec: ContainerSpec, process: asyncio.subprocess.Process) -> None:
    """Wait until runc has written the pid file. It writes this file when the container's program runs."""
    pid_file = spec.folder / "pid"
    while not await asyncio.to_thread(pid_file.exists):
        if process.returncode is not None:
            if await asyncio.to_thread(pid_file.exists):
                return
            raise ContainerStartError("RunContainerError", await asyncio.to_thread(_read_error, spec))
        await asyncio.sleep(_POLL_SECONDS)


def _read_error(spec: ContainerSpec) -> str:
    """Return the last message of runc's log, or else the output of the mount commands."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return str(json.loads((spec.folder / "error.log").read_text().splitlines()[-1])["msg"])
    with contextlib.suppress(OSError):
        return spec.log.read_text(errors="replace")[-500:].strip() or "runc gave no reason"
    return "runc gave no reason"


async def probe_runc(rejections: Sequence[str]) -> tuple[RuncRuntime | None, str]:
    """Return a runc that can run a container here, or None and the reason.

    Args:
        rejections: why more complete runtimes were rejected, for the description of the runtime.
    """
    if os.geteuid() != 0:
        return None, "runc without podman requires root"
    for tool in ("runc", "unshare", "mount"):
        if await asyncio.to_thread(shutil.which, tool) is None:
            return None, f"{tool} is not installed"
    version = (await run("runc", "--version")).output.partition("\n")[0].removeprefix("runc version ")
    runtime = RuncRuntime(version, rejections)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="dradriver-probe-"))
    owner = str(folder)
    spec = ContainerSpec(
        id=folder.name,
        owner=owner,
        folder=folder,
        log=folder / "log",
        cdi_folder=folder / "cdi",
        argv=("true",),
    )
    try:
        container = await runtime.start(replace(spec, hostname="probe"))
        code = await container.wait()
    except ContainerStartError as error:
        return None, f"runc can't run a container here: {error}"
    finally:
        await runtime.clean(owner)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return (runtime, "") if code == 0 else (None, f"runc can't run a container here: exit code {code}")
