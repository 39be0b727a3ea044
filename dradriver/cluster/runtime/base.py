"""The interface of all container runtimes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from dradriver.errors import DraError

__all__ = ["PAUSE", "ContainerSpec", "ContainerStartError", "RunningContainer", "Runtime", "format_rejections"]

PAUSE: Final = ("sh", "-c", "trap 'exit 0' TERM INT; sleep infinity & wait")
"""The program of a container without a command. It does nothing until it gets a signal to end."""


class ContainerStartError(DraError):
    """A container could not be started.

    Attributes:
        reason: the kubelet's reason: `CreateContainerError` (before a process of the container ran) or
            `RunContainerError`.
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
        folder: an existing empty folder for the runtime's own files. The caller must remove it afterwards.
        log: the file for the container's output.
        cdi_folder: the folder with the CDI specs.
        cdi_devices: qualified names (`vendor/class=device`) of the devices to inject.
        argv: program and arguments. If empty, the image's command is used, or `PAUSE` if the image is not used.
        env: environment variables. Variables of the CDI devices override them.
        working_dir: working directory of the program; `/` if empty.
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


def format_rejections(rejections: Sequence[str]) -> str:
    """Return the end of a runtime's description: why better runtimes were rejected; empty if none was."""
    return f" ({'; '.join(rejections)})" if rejections else ""


class RunningContainer(Protocol):
    """A container that was started."""

    @property
    def id(self) -> str:
        """`RUNTIME://ID`, as in `containerStatuses[].containerID`."""

    async def wait(self) -> int:
        """Return the exit code when the container is gone; 128 + N for signal N."""

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, then SIGKILL, and return when the container is gone.

        Args:
            grace_seconds: the time between the two signals.
        """


class Runtime(Protocol):
    """A way to run containers."""

    @property
    def name(self) -> str:
        """`podman`, `runc` or `process`."""

    def describe(self) -> str:
        """Return a sentence about the runtime and how its containers differ from containers in a cluster."""

    async def describe_image_use(self, image: str) -> str:
        """Return a note for users on how the container differs from the image; empty if it does not differ.

        Args:
            image: the image that a pod names; empty if it names none.
        """

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        """Start a container.

        If the process dies during or after the start, `clean(spec.owner)` in the next run ends the container.

        Args:
            spec: the container.

        Returns:
            The running container.

        Raises:
            ContainerStartError: the container can't be started.
        """

    async def clean(self, owner: str) -> None:
        """End and remove all containers of this owner that an earlier run left.

        Args:
            owner: `ContainerSpec.owner` of the containers.
        """

    def parse_log_line(self, line: bytes) -> bytes:
        """Return the container's output from one line of its log file.

        Args:
            line: the line, with its line end if it has one.
        """
