"""A cgroup (version 2) of the node for each daemon. It says which processes belong to the daemon. Blocking."""

import errno
import time
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.mps.daemon import name_daemon
from dradriver_gpu_mig.mps.node_view import NodeView

__all__ = ["DaemonCgroups"]

_PARENT: Final = "dradriver-mps"

_REMOVE_SECONDS: Final = 10.0
"""Seconds in which processes that have ended leave their cgroup."""
_POLL_SECONDS: Final = 0.05


class DaemonCgroups:
    """The cgroups of a node.

    Args:
        node: the node.
        root: folder of the node at which cgroups of version 2 are mounted.
    """

    def __init__(self, node: NodeView, root: Path) -> None:
        self._node = node
        self._root = root

    def path(self, claim: str) -> Path:
        """Return the folder of a daemon's cgroup, as the node sees it.

        Args:
            claim: UID of the claim.
        """
        return self._root / _PARENT / claim

    def list_processes(self, claim: str) -> list[int]:
        """Return the PIDs of a daemon's processes, as this process sees them; 0 for one that it does not see.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the cgroup cannot be read.
        """
        path = self._node.see(self.path(claim)) / "cgroup.procs"
        try:
            return [int(pid) for pid in path.read_text().split()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            if error.errno == errno.ENODEV:  # the cgroup was removed while it was read
                return []
            raise dra.DraError(f"{name_daemon(claim)}: {path} cannot be read: {error}") from error

    def check(self, claim: str) -> None:
        """Check that the node has cgroups of version 2.

        Args:
            claim: UID of the claim, for errors.

        Raises:
            DraError: it does not.
        """
        if not (self._node.see(self._root) / "cgroup.controllers").exists():
            raise dra.DraError(
                f"{name_daemon(claim)}: {self._root} of this node has no cgroups of version 2, and the daemon "
                "needs a cgroup of its own"
            )

    def make(self, claim: str) -> None:
        """Create the cgroup of a daemon, if it does not exist.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the cgroup cannot be created.
        """
        path = self._node.see(self.path(claim))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise dra.DraError(f"{name_daemon(claim)}: {path} cannot be created: {error}") from error

    def remove(self, claim: str) -> None:
        """Remove the cgroup of a daemon, if it exists.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the cgroup is not empty, or cannot be removed.
        """
        path = self._node.see(self.path(claim))
        # A process that has just ended keeps its cgroup for a moment.
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                path.rmdir()
            except FileNotFoundError:
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise dra.DraError(f"{name_daemon(claim)}: {path} cannot be removed: {error}") from error
                time.sleep(_POLL_SECONDS)
            else:
                return
