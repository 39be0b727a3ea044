"""The folder that contains all state of a cluster, and the lock that excludes other clusters."""

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from dradriver.errors import UsageError

__all__ = ["DataFolder"]


_MAX_PATH_BYTES: Final = 40
"""Maximum bytes of a folder's path.

The kernel limits the path of a socket to 107 bytes, and the sockets of nodes are below the folder.
"""


class DataFolder:
    """The paths of a cluster's state. All methods block.

    Drivers and kubelets communicate through sockets below the folder, and the path of a socket must be short.
    If the path of the folder is long, the cluster creates a short symbolic link to the folder in the directory
    for temporary files. Nodes use this link while the cluster runs. If the cluster is killed, the next start
    finds the old link by its name.

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
        self._link: Path | None = None
        if len(os.fsencode(self.path)) > _MAX_PATH_BYTES:
            digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:10]
            self._link = Path(tempfile.gettempdir()) / f"dradriver-{digest}"

    def node(self, name: str) -> Path:
        """Return a node's own folder, which contains sockets, CDI specs and the checkpoint."""
        return (self._link or self.path) / "nodes" / name

    def lock(self) -> None:
        """Create the folder and lock it for this process.

        The kernel releases the lock when the process ends, even if it is killed.

        Raises:
            UsageError: the folder can't be used, or another cluster uses it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"data folder {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 20).decode(errors="replace") or "?"
            os.close(descriptor)
            raise UsageError(
                f"data folder {self.path}: another cluster runs in it (process {holder}); "
                "stop it or choose another folder"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._lock = descriptor
        if self._link is not None:
            self._make_link(self._link)

    def unlock(self) -> None:
        """Free the lock."""
        if self._lock is None:
            return
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def _make_link(self, link: Path) -> None:
        try:
            link.symlink_to(self.path, target_is_directory=True)
        except FileExistsError:
            # Other users may also write to the directory for temporary files, so only a link of this user is
            # trusted.
            if not link.is_symlink() or link.lstat().st_uid != os.getuid() or link.readlink() != self.path:
                self._link = None
                self.unlock()
                raise UsageError(
                    f"data folder {self.path}: the path is too long for sockets, and {link} is not a link "
                    f"to it; remove {link} or choose a folder with a shorter path"
                ) from None
