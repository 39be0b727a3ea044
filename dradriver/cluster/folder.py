"""The folder that holds all of a cluster, and the lock that keeps a second cluster out of it."""

import fcntl
import os
from pathlib import Path

from dradriver.errors import UsageError

__all__ = ["DataFolder"]


class DataFolder:
    """Where a cluster keeps what. All methods block.

    Attributes:
        path: the folder.
        api_server: state and credentials of the API server.
        kubeconfig: the administrator's kubeconfig.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.api_server = self.path / "apiserver"
        self.kubeconfig = self.path / "kubeconfig"
        self._lock: int | None = None

    def node(self, name: str) -> Path:
        """A node's own folder: sockets, CDI specs, checkpoint."""
        return self.path / "nodes" / name

    def lock(self) -> None:
        """Makes the folder and takes it for this process.

        The kernel lifts the lock when the process ends, however it does.

        Raises:
            UsageError: the folder can't be used, or another cluster runs in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"data folder {self.path}: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 20).decode(errors="replace") or "?"
            os.close(descriptor)
            raise UsageError(
                f"data folder {self.path}: another cluster runs in it (process {holder}); "
                "stop that one or choose another folder"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        """Gives the folder free."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
