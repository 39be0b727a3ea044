"""The interface of all container runtimes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from dradriver.errors import DraError

__all__ = ["PAUSE", "ContainerSpec", "ContainerStartError", "RunningContainer", "Runtime"]

PAUSE: Final = ("sh", "-c", "trap 'exit 0' TERM INT; sleep infinity & wait")
"""The program of a container without a command: does nothing until it is asked to end."""


class ContainerStartError(DraError):
    """A container could not be started.

    Attributes:
        reason: the kubelet's reason: `CreateContainerError` (before anything ran) or `RunContainerError`.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container to run.

    Attributes:
        id: a name that is unique among the containers of the machine: letters, digits, `-`.
        owner: the owner of the container; `Runtime.clean(owner)` ends all containers of one owner.
        folder: an existing empty folder for the runtime's own files; the caller removes it afterwards.
        log: the file for the container's output.
        cdi_folder: the folder with the CDI specs.
        cdi_devices: qualified names (`vendor/class=device`) of the devices to inject.
        argv: program and arguments; if empty, the image's command, or else `PAUSE`.
        env: environment variables, which those of the CDI devices override.
        working_dir: where the program starts, `/` if empty.
        image: the image that the pod names.
        hostname: the container's host name.
    """

    id: str
    owner: str
    folder: Path
    log: Path
    cdi_folder: Path
    cdi_devices: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    image: str = ""
    hostname: str = ""


class RunningContainer(Protocol):
    """A container that was started."""

    @property
    def id(self) -> str:
        """`RUNTIME://ID`, as in `containerStatuses[].containerID`."""

    async def wait(self) -> int:
        """Return the exit code once the container is gone; 128 + N for signal N."""

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, after `grace_seconds` SIGKILL, and return when the container is gone."""


class Runtime(Protocol):
    """A way to run containers."""

    @property
    def name(self) -> str:
        """`podman`, `runc` or `process`."""

    def describe(self) -> str:
        """Return one sentence about the runtime, and how its containers differ from those of a cluster."""

    async def notice(self, image: str) -> str:
        """Return a note for users about running this image here; empty if there is none."""

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        """Start a container. It runs when this returns.

        If the process dies during or after the start, `clean(spec.owner)` of the next run ends the container.

        Raises:
            ContainerStartError: it can't be started.
        """

    async def clean(self, owner: str) -> None:
        """End and remove all containers of this owner that an earlier run left."""

    def text_of(self, line: bytes) -> bytes:
        """Return the container's output from one line of its log file."""
