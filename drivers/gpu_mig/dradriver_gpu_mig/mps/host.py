"""Interface to the MPS daemons of the node, and the folders of a claim."""

from pathlib import Path
from typing import Final, Protocol

import dradriver as dra
from dradriver_gpu_mig.mps.daemon import MpsDaemon, name_daemon
from dradriver_gpu_mig.mps.steps import ObservedDaemon

__all__ = ["MpsFolders", "MpsHost", "read_log"]

_LOG_LINES: Final = 20
_LOG_BYTES: Final = 16_384


class MpsFolders:
    """The folders of the claims. Each claim has a folder of its own with the folders pipe, log and shm.

    Args:
        folder: folder with one folder for each claim. The node and this process have it at the same path.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def claim(self, claim: str) -> Path:
        """Return the folder of a claim.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the UID is not a file name.
        """
        if claim in {"", ".", ".."} or "/" in claim:
            raise dra.DraError(f"{claim!r} is not the UID of a claim")
        return self.folder / claim

    def pipe(self, claim: str) -> Path:
        """Return the folder of the daemon's sockets, which the containers of the claim get.

        Args:
            claim: UID of the claim.
        """
        return self.claim(claim) / "pipe"

    def log(self, claim: str) -> Path:
        """Return the folder of the daemon's logs. No container gets it.

        Args:
            claim: UID of the claim.
        """
        return self.claim(claim) / "log"

    def shm(self, claim: str) -> Path:
        """Return the folder of the shared memory, which is /dev/shm of the daemon and of the containers.

        Args:
            claim: UID of the claim.
        """
        return self.claim(claim) / "shm"

    def make(self, claim: str) -> None:
        """Create the folders of a claim that are missing. Blocking.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the disk is full, or the folder is not writable.
        """
        try:
            for path in (self.pipe(claim), self.log(claim), self.shm(claim)):
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise dra.DraError(f"{name_daemon(claim)}: its folders cannot be created: {error}") from error


class MpsHost(Protocol):
    """The MPS daemons of a node. All methods block, and all raise DraError if the node rejects a change."""

    def check(self, claim: str) -> None:
        """Check that the node has what a daemon needs. Nothing is changed.

        Args:
            claim: UID of the claim, for errors.
        """
        ...

    def observe(self, claim: str) -> ObservedDaemon:
        """Return the state of a claim's daemon.

        Args:
            claim: UID of the claim.
        """
        ...

    def mount(self, claim: str) -> None:
        """Create the claim's folders, and mount its shared memory.

        Args:
            claim: UID of the claim.
        """
        ...

    def unmount(self, claim: str) -> None:
        """Unmount the claim's shared memory.

        Args:
            claim: UID of the claim.
        """
        ...

    def start(self, daemon: MpsDaemon) -> None:
        """Start a daemon, and return when it answers. Sockets of an earlier daemon are removed first.

        Args:
            daemon: the daemon.

        Raises:
            DraError: the daemon does not answer in time. The message has the last lines of its log.
        """
        ...

    def configure(self, daemon: MpsDaemon) -> None:
        """Send the limits to a daemon that answers, and check that it has them. A repeated call does the same.

        Args:
            daemon: the daemon.
        """
        ...

    def stop(self, claim: str) -> None:
        """Ask the daemon to end, wait for a while, and kill what is left of it.

        Args:
            claim: UID of the claim.
        """
        ...

    def kill(self, claim: str) -> None:
        """Kill all processes of the daemon.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a process does not end.
        """
        ...

    def remove(self, claim: str) -> None:
        """Remove the folders pipe, log and shm of a claim, and its cgroup, if they exist.

        Args:
            claim: UID of the claim.
        """
        ...


def read_log(folder: Path) -> str:
    """Return the last lines of the logs in a folder, with their names; a short remark if there are none.

    Args:
        folder: the log folder of a claim.
    """
    lines: list[str] = []
    for path in sorted(folder.glob("*.log")):
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _LOG_BYTES))
                content = file.read().decode(errors="replace")
        except OSError:
            continue  # it was removed, or it is not a file
        lines += [f"{path.name}: {line}" for line in content.splitlines()[-_LOG_LINES:] if line.strip()]
    return "\n".join(lines) or "its log is empty"
