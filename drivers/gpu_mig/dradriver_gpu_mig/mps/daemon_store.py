"""Stores the records of MPS daemons: `<folder>/<claim UID>/daemon.json`.

Two processes share the folder during a rolling update. Blocking, except `lock`.
"""

import logging
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.files import find_later_version, hold_lock, name_path, remove_file, write_file
from dradriver_gpu_mig.mps.daemon import DAEMON_VERSION, MpsDaemon, name_daemon
from dradriver_gpu_mig.mps.host import MpsFolders

__all__ = ["MpsDaemonStore"]

_log: Final = logging.getLogger(__name__)

_RECORD: Final = "daemon.json"


class MpsDaemonStore:
    """The records in a folder.

    Args:
        folder: folder with one folder for each claim, which is created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folders = MpsFolders(folder)

    def claims(self) -> set[str]:
        """Return the UIDs of the claims that have a folder, also without a record."""
        folder = self._folders.folder
        return {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()

    def locked(self) -> set[str]:
        """Return the UIDs of the claims that have a lock file, also if no process has the lock."""
        return {path.stem for path in self._folders.folder.glob("*.lock")}

    def get(self, claim: str) -> MpsDaemon | None:
        """Return the record of a claim, or None.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a later version of the driver wrote the record.
        """
        path = self._path(claim)
        try:
            with name_path(path, "read"):
                content = path.read_bytes()
            fields = msgspec.json.decode(content, type=dict[str, object])
            if reason := find_later_version(fields, MpsDaemon, DAEMON_VERSION):
                raise dra.DraError(
                    f"{name_daemon(claim)}: {path} was written by a later version of this driver ({reason}): "
                    "run that version until the claim is released"
                )
            return msgspec.convert(fields, MpsDaemon)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            self._move_aside(claim, error)
            return None

    def put(self, record: MpsDaemon) -> None:
        """Write a record. When this method returns, the record is on disk.

        Args:
            record: the record, which replaces an earlier record of the claim.

        Raises:
            DraError: the disk is full, the folder is not writable, or a later version of the driver wrote the
                present record.
        """
        self.get(record.claim)
        content = msgspec.json.encode(msgspec.structs.replace(record, version=DAEMON_VERSION))
        write_file(self._path(record.claim), content)

    def delete(self, claim: str) -> None:
        """Delete the record of a claim, if it exists, and then the claim's folder.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the folder is not writable or not empty, or a later version of the driver wrote the
                record.
        """
        self.get(claim)
        path = self._path(claim)
        with suppress(FileNotFoundError):
            remove_file(path.with_suffix(".new"))  # a process died while it wrote the record
            remove_file(path)
            with name_path(path.parent, "removed"):
                path.parent.rmdir()

    def lock(self, claim: str, *, wait: bool = True) -> AbstractAsyncContextManager[None]:
        """Keep other calls and processes from working on a claim's daemon.

        Args:
            claim: UID of the claim.
            wait: whether to wait for a while if another process works on the daemon.

        Returns:
            A context, in which the caller has the daemon. It raises BusyError if another process has it.
        """
        return hold_lock(self._lock_path(claim), name_daemon(claim), wait=wait)

    def remove_lock(self, claim: str) -> None:
        """Remove the lock file of a claim without a record. The caller has the lock.

        A call that waits for the lock notices this, and creates the file again.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the folder is not writable.
        """
        path = self._lock_path(claim)
        with name_path(path, "removed"):
            path.unlink(missing_ok=True)

    def _path(self, claim: str) -> Path:
        return self._folders.claim(claim) / _RECORD

    def _lock_path(self, claim: str) -> Path:
        path = self._folders.claim(claim)
        return path.with_name(f"{path.name}.lock")

    def _move_aside(self, claim: str, error: msgspec.MsgspecError) -> None:
        path, folder = self._path(claim), self._folders.claim(claim)
        damaged = folder.with_name(f"{folder.name}.damaged")
        with suppress(FileNotFoundError), name_path(path, "moved aside"):
            path.replace(damaged)
            _log.error(
                "%s: %s is damaged and was moved to %s; its settings are lost, so the daemon is stopped: %s",
                name_daemon(claim),
                path,
                damaged,
                error,
            )
