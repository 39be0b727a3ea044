"""Runs containers with podman. Podman's own CDI code injects the devices."""

import asyncio
import os
import re
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dradriver.cluster.runtime.base import PAUSE, ContainerSpec, ContainerStartError
from dradriver.cluster.runtime.commands import CommandResult, run
from dradriver.cluster.runtime.processes import wait_for_exit

__all__ = ["PodmanRuntime", "probe_podman"]

_OWNER: Final = "dradriver.owner"
_CDI_FOLDER: Final = Path("/var/run/cdi")
_PODMAN_NPROC: Final = 32768
"""Podman's maximum for the limit of processes. Podman 4.3 fails if the given limit is higher."""
_LOG_LINE: Final = re.compile(rb"\S+ (?:stdout|stderr) ([FP]) (.*?)\n?", re.DOTALL)
# If podman does not support --cdi-spec-dir, it reads /var/run/cdi. In podman's own mount namespace, the node's
# folder is mounted at this path. If the machine does not have /var/run/cdi, the script does not create it,
# because the folder would remain after a kill. Instead, the script uses /etc/cdi, which podman also reads. It
# creates /etc/cdi in an overlay on /etc, which is invisible outside the namespace.
_IN_NAMESPACE: Final = f"""set -e
specs=$1 scratch=$2
shift 2
if [ -d {_CDI_FOLDER} ]; then
  mount --bind "$specs" {_CDI_FOLDER}
else
  mount -t tmpfs tmpfs "$scratch"
  mkdir "$scratch/upper" "$scratch/work"
  mount -t overlay overlay -o "lowerdir=/etc,upperdir=$scratch/upper,workdir=$scratch/work" /etc
  mkdir -p /etc/cdi
  mount --bind "$specs" /etc/cdi
fi
exec "$@"
"""


class PodmanRuntime:
    """Runs each container with `podman run`, detached.

    If podman already has an image, the image is used. Images are never pulled. If podman does not have the
    image, the container sees the files of this machine. Changes to these files go to an overlay that is
    discarded.
    """

    name = "podman"

    def __init__(self, version: str, flags: Sequence[str] = (), *, cdi_spec_dir: bool = False) -> None:
        self._version = version
        self._flags = tuple(flags)
        self._cdi_spec_dir = cdi_spec_dir

    def describe(self) -> str:
        """Return one sentence for the user."""
        return f"containers are run by podman {self._version}, which injects the CDI devices itself; no network"

    async def describe_image_use(self, image: str) -> str:
        """Return a note if the machine's own files replace the image."""
        if not image or await self._has_image(image):
            return ""
        return (
            f"image {image} is not on this machine and none is pulled: the container sees the machine's own "
            "files, its changes are discarded"
        )

    def parse_log_line(self, line: bytes) -> bytes:
        """Return the text of a log line of the form `TIME STREAM F|P TEXT`; P is a part without a line end."""
        match = _LOG_LINE.fullmatch(line)
        if match is None:
            return line
        return match[2] + (b"\n" if match[1] == b"F" else b"")

    async def start(self, spec: ContainerSpec) -> "PodmanContainer":
        """Start the container.

        Raises:
            ContainerStartError: podman failed. The message is podman's message, with a hint if it can't resolve
                CDI devices.
        """
        conmon = spec.folder / "conmon.pid"
        image = await self._has_image(spec.image) if spec.image else False
        argv = [
            "podman",
            *self._flags,
            *(["--cdi-spec-dir", str(spec.cdi_folder)] if self._cdi_spec_dir else []),
            "run",
            *self._options(spec, conmon),
            *_root_and_command(spec, image=image),
        ]
        if spec.cdi_devices and not self._cdi_spec_dir:
            scratch = spec.folder / "scratch"
            await asyncio.to_thread(scratch.mkdir)
            argv = [
                *("unshare", "-m", "sh", "-c", _IN_NAMESPACE, "sh", str(spec.cdi_folder), str(scratch)),
                *argv,
            ]
        outcome = await run(*argv)
        if not outcome.ok:
            await self._podman("rm", "--force", "--ignore", "--time", "0", spec.id)
            raise _to_start_error(outcome)
        pid = int((await asyncio.to_thread(conmon.read_text)).strip())
        return PodmanContainer(self._flags, spec.id, outcome.output.strip(), pid)

    async def clean(self, owner: str) -> None:
        """Remove the owner's containers, whether they run or not."""
        listed = await self._podman("ps", "--all", "--quiet", "--filter", f"label={_OWNER}={owner}")
        if ids := listed.output.split():
            await self._podman("rm", "--force", "--ignore", "--time", "0", *ids)

    def _options(self, spec: ContainerSpec, conmon: Path) -> list[str]:
        options = ["--detach", "--name", spec.id, "--network", "none", "--conmon-pidfile", str(conmon)]
        options += [
            "--log-driver",
            "k8s-file",
            "--log-opt",
            f"path={spec.log}",
            "--label",
            f"{_OWNER}={spec.owner}",
        ]
        options += _limit_options()
        if spec.hostname:
            options += ["--hostname", spec.hostname]
        if spec.working_dir:
            options += ["--workdir", spec.working_dir]
        for name, value in spec.env.items():
            options += ["--env", f"{name}={value}"]
        for device in spec.cdi_devices:
            options += ["--device", device]
        return options

    async def _has_image(self, image: str) -> bool:
        return (await self._podman("image", "exists", image)).ok

    async def _podman(self, *argv: str) -> CommandResult:
        return await run("podman", *self._flags, *argv)


class PodmanContainer:
    """A container that podman runs. The monitor process conmon runs as long as the container."""

    def __init__(self, flags: tuple[str, ...], name: str, podman_id: str, conmon: int) -> None:
        self.id = f"podman://{podman_id}"
        self._flags = flags
        self._name = name
        self._conmon = conmon

    async def wait(self) -> int:
        """Return the exit code and remove the container from podman's list."""
        await wait_for_exit(self._conmon)
        # Conmon is gone, so this call returns at once.
        outcome = await run("podman", *self._flags, "wait", self._name)
        await run("podman", *self._flags, "rm", "--force", "--ignore", "--time", "0", self._name)
        code = outcome.output.strip()
        # Another process removed the container, so it ended by SIGKILL.
        return int(code) if code.lstrip("-").isdigit() else 137

    async def stop(self, grace_seconds: float) -> None:
        """Call `podman stop`: SIGTERM (or the image's own signal), then SIGKILL."""
        grace = max(0, round(grace_seconds))
        await run(
            "podman", *self._flags, "stop", "--ignore", "--time", str(grace), self._name, timeout=grace + 30
        )
        await wait_for_exit(self._conmon)


def _limit_options() -> list[str]:
    """Return limits that need no CAP_SYS_RESOURCE. Many machines have lower limits than podman's defaults."""
    files = min(1048576, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = _PODMAN_NPROC if processes == resource.RLIM_INFINITY else min(_PODMAN_NPROC, processes)
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]


def _root_and_command(spec: ContainerSpec, *, image: bool) -> list[str]:
    if not image:
        return ["--rootfs", "/:O", *(spec.argv or PAUSE)]
    # The pod's command replaces the image's entry point.
    entrypoint = ["--entrypoint", spec.argv[0]] if spec.argv else []
    return [*entrypoint, "--pull", "never", spec.image, *spec.argv[1:]]


def _to_start_error(outcome: CommandResult) -> ContainerStartError:
    message = outcome.error.strip().removeprefix("Error: ") or f"podman exited with {outcome.code}"
    if "unresolvable CDI devices" in message:
        message += " (podman 4 reads CDI specs of version 0.3.0 to 0.5.0 only)"
    reason = (
        "RunContainerError" if outcome.code in {126, 127} and "CDI" not in message else "CreateContainerError"
    )
    return ContainerStartError(reason, message)


async def probe_podman() -> tuple[PodmanRuntime | None, str]:
    """Return a podman that can run a container here, or None and the reason."""
    if await asyncio.to_thread(shutil.which, "podman") is None:
        return None, "podman is not installed"
    version = (await run("podman", "version", "--format", "{{.Client.Version}}")).output.strip()
    # `--cdi-spec-dir` came with podman 5; older versions read fixed folders.
    spec_dir = "--cdi-spec-dir" in (await run("podman", "--help")).output
    if not spec_dir and os.geteuid() != 0:
        return None, f"podman {version} reads CDI specs only from fixed folders, which requires root"
    problem = ""
    for flags in ((), ("--runtime", "runc")):
        outcome = await run(
            "podman", *flags, "run", "--rm", "--network", "none", *_limit_options(), "--rootfs", "/:O", "true"
        )
        if outcome.ok:
            return PodmanRuntime(version, flags, cdi_spec_dir=spec_dir), ""
        problem = outcome.error.strip().removeprefix("Error: ")
    return None, f"podman can't run a container here: {problem or 'no reason given'}"
