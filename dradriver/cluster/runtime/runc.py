"""Runs containers with runc alone; this module writes the OCI bundle and applies the CDI edits."""

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from dradriver.cluster.runtime.base import ContainerSpec, ContainerStartError
from dradriver.cluster.runtime.cdi_apply import apply_edits
from dradriver.cluster.runtime.cdi_specs import edits_for
from dradriver.cluster.runtime.commands import run
from dradriver.cluster.runtime.oci import oci_config
from dradriver.model.encoding.codec import canonical

__all__ = ["RuncRuntime", "probe_runc"]

_STATE: Final = Path("/run/dradriver-runc")
"""The folder with runc's state of running containers, one subfolder for each owner."""

# The overlay lives in a mount namespace that ends with the container: nothing has to be unmounted. Its upper
# layer is a tmpfs, because an upper layer can't be on an overlay, and the host's root may be one. `cd -P`
# resolves symbolic links: runc joins $PWD and the root's path, and rejects the result if it contains a link.
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

    def __init__(self, version: str) -> None:
        self._version = version

    def describe(self) -> str:
        """Return one sentence for the user."""
        return (
            f"containers are run by runc {self._version} on an overlay of this machine's files; the CDI edits "
            "are applied by the embedded kubelet; no network"
        )

    async def notice(self, image: str) -> str:
        """Return a note that the image is not used."""
        if not image:
            return ""
        return (
            f"image {image} is not used: the container sees the machine's own files, its changes are "
            "thrown away"
        )

    def text_of(self, line: bytes) -> bytes:
        """Return the line: the log holds the container's output unchanged."""
        return line

    async def start(self, spec: ContainerSpec) -> "RuncContainer":
        """Write the bundle and start the container.

        Raises:
            ContainerStartError: a CDI device is not known, or runc failed (with its message).
        """
        state = _state_of(spec.owner)
        await asyncio.to_thread(_write_bundle, spec, state)
        log = await asyncio.to_thread(os.open, spec.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            process = await asyncio.create_subprocess_exec(
                *("unshare", "-m", "sh", "-c", _RUN, "sh", str(spec.folder), str(state), spec.id),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C in the terminal must reach only this process, which ends the containers in order.
                start_new_session=True,
            )
        finally:
            os.close(log)
        container = RuncContainer(state, spec.id, process)
        await _started(spec, process)
        return container

    async def clean(self, owner: str) -> None:
        """Kill and remove the owner's containers, and with them their mounts."""
        state = _state_of(owner)
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


def _state_of(owner: str) -> Path:
    return _STATE / sha256(owner.encode()).hexdigest()[:16]


def _write_bundle(spec: ContainerSpec, state: Path) -> None:
    config: dict[str, Any] = oci_config(spec)
    apply_edits(config, edits_for(spec.cdi_folder, spec.cdi_devices))
    (spec.folder / "config.json").write_bytes(canonical(config))
    state.mkdir(parents=True, exist_ok=True)


async def _started(spec: ContainerSpec, process: asyncio.subprocess.Process) -> None:
    """Wait until runc has written the pid file, which it does once the container's program runs."""
    pid_file = spec.folder / "pid"
    while not await asyncio.to_thread(pid_file.exists):
        if process.returncode is not None:
            if await asyncio.to_thread(pid_file.exists):
                return
            raise ContainerStartError("RunContainerError", await asyncio.to_thread(_reason, spec))
        await asyncio.sleep(_POLL_SECONDS)


def _reason(spec: ContainerSpec) -> str:
    """Return the last message of runc's log, or the output of the mounts."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return str(json.loads((spec.folder / "error.log").read_text().splitlines()[-1])["msg"])
    with contextlib.suppress(OSError):
        return spec.log.read_text(errors="replace")[-500:].strip() or "runc gave no reason"
    return "runc gave no reason"


async def probe_runc() -> tuple[RuncRuntime | None, str]:
    """Return a runc that can run a container here, or None and the reason."""
    if os.geteuid() != 0:
        return None, "runc alone needs root"
    for tool in ("runc", "unshare", "mount"):
        if await asyncio.to_thread(shutil.which, tool) is None:
            return None, f"{tool} is not installed"
    version = (await run("runc", "--version")).output.partition("\n")[0].removeprefix("runc version ")
    runtime = RuncRuntime(version)
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
