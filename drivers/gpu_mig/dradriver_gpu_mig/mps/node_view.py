"""The node as the driver's pod sees it: its files, its mounts, and programs that run on it. Blocking."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import dradriver as dra
from dradriver_gpu_mig.host.paths import PROGRAM_FOLDERS, resolve
from dradriver_gpu_mig.mps.daemon import name_daemon

__all__ = ["SEARCH", "NodeView", "run_program"]

_ENTER: Final = Path(__file__).with_name("enter.py")

SEARCH: Final = {"PATH": ":".join(f"/{folder}" for folder in PROGRAM_FOLDERS)}
"""Environment of programs on the node: those of the driver's image mean nothing there."""

_COMMAND_SECONDS: Final = 10.0
"""Seconds for a command that only mounts or removes."""


class NodeView:
    """The node of the driver's pod.

    Args:
        proc: the node's procfs, as this process sees it.
        target: PID of a process with the namespaces of the node.
    """

    def __init__(self, proc: Path, target: int) -> None:
        self._proc = proc
        self._target = target

    def see(self, path: Path) -> Path:
        """Return a file of the node, as this process sees it.

        Args:
            path: the file, as the node sees it.

        Raises:
            DraError: this process has no access to the node.
        """
        root = self._root
        try:
            root.stat()  # `Path.is_symlink` of new versions of Python hides that there is no access
            return resolve(root, root / path.relative_to("/"))
        except OSError as error:
            raise dra.DraError(
                f"the files of the node cannot be read. A driver in a pod must be privileged: {error}"
            ) from error

    def has_program(self, root: Path, name: str) -> bool:
        """Return whether a process of the node finds a program.

        Args:
            root: root of the process, as the node sees it.
            name: file name of the program.

        Raises:
            DraError: this process has no access to the node.
        """
        folder = self.see(root)
        return any(resolve(folder, folder / each / name).is_file() for each in PROGRAM_FOLDERS)

    def is_mount_point(self, path: Path) -> bool:
        """Return whether something is mounted at a folder of the node.

        Args:
            path: the folder, as the node sees it.

        Raises:
            OSError: the node's procfs cannot be read.
            DraError: this process has no access to the node.
        """
        lines = (self._proc / str(self._target) / "mountinfo").read_bytes().splitlines()
        wanted = str(Path("/", self.see(path).relative_to(self._root)))
        return any(_decode_mount_point(line) == wanted for line in lines)

    def enter(self, pid: int | None, namespaces: str) -> list[str]:
        """Return the command that runs another one in namespaces of a process, and with its root.

        Args:
            pid: the process; None: the one with the namespaces of the node.
            namespaces: names of files in the process' folder `ns`, separated by commas.
        """
        folder = self._proc / str(self._target if pid is None else pid)
        return [sys.executable, "-I", str(_ENTER), str(folder), namespaces]

    def enter_node(self) -> list[str]:
        """Return the command that runs another one in the namespaces of the node."""
        return self.enter(None, "cgroup,ipc,net,uts,mnt")

    def run(self, claim: str, *command: str) -> None:
        """Run a short program on the node.

        Args:
            claim: UID of the claim, for errors.
            command: the program and its arguments.

        Raises:
            DraError: the program does not exist, fails, or does not end in time.
        """
        run_program(claim, command[0], [*self.enter_node(), *command], seconds=_COMMAND_SECONDS)

    @property
    def _root(self) -> Path:
        return self._proc / str(self._target) / "root"


def run_program(
    claim: str,
    action: str,
    command: Sequence[str],
    *,
    seconds: float,
    text: str = "",
    environment: Mapping[str, str] = SEARCH,
    output: IO[bytes] | None = None,
) -> str:
    """Run a program, wait until it ends, and return what it has printed.

    Args:
        claim: UID of the claim.
        action: short form of the command for errors.
        command: the program and its arguments.
        seconds: time limit.
        text: input of the program.
        environment: environment variables.
        output: file for the program's output, which is not returned then; None: an error contains the output.

    Raises:
        DraError: the program does not exist, fails, or does not end in time.
    """
    try:
        completed = subprocess.run(  # noqa: S603 - a list of arguments without a shell
            command,
            input=text.encode(),
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE if output is None else subprocess.STDOUT,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise dra.DraError(f"{name_daemon(claim)}: {action} does not end after {seconds:g} s") from error
    except OSError as error:
        raise dra.DraError(f"{name_daemon(claim)}: {action}: {command[0]} cannot be run: {error}") from error
    if completed.returncode != 0:
        message = (completed.stderr or completed.stdout or b"").decode(errors="replace").strip()
        status = f"{action} fails with status {completed.returncode}"
        raise dra.DraError(f"{name_daemon(claim)}: {status}: {message or 'no message'}")
    return (completed.stdout or b"").decode(errors="replace").strip()


def _decode_mount_point(line: bytes) -> str:
    """Return the mount point of a line of mountinfo, which has spaces as octal numbers."""
    field = line.split(b" ")[4]
    return os.fsdecode(field.decode("unicode_escape").encode("latin-1"))
