"""The records: one file for each device, in a folder that two processes share during a rolling update.

Blocking.

A file is replaced atomically, and it is synced together with its folder before the hardware is changed. A
process that dies right after a write leaves the complete record. A process that dies right before it leaves
none.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

import msgspec

import dradriver as dra
from dradriver_gpu_mig.instances.record import Record

__all__ = ["RecordStore"]


_log: Final = logging.getLogger(__name__)


class RecordStore:
    """The records of this boot in a folder.

    Args:
        folder: created if it is missing.
        boot: ID of the current boot. Records of another boot are ignored.
    """

    def __init__(self, folder: Path, boot: str) -> None:
        self._folder = folder
        self.boot = boot

    def all(self) -> list[Record]:
        """Return every record of this boot, in order of device names."""
        found = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def get(self, device: str) -> Record | None:
        """Return the record of a device, or None."""
        return self._read(self._path(device))

    def put(self, record: Record) -> None:
        """Write a record. It is on disk when this returns.

        Raises:
            DraError: the disk is full, or the folder is not writable.
        """
        path = self._path(record.device)
        unfinished = path.with_suffix(".new")
        with _named(path, "written"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(msgspec.json.encode(record))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            self._sync()

    def drop(self, device: str) -> None:
        """Remove the record of a device, if there is one.

        Raises:
            DraError: the folder is not writable.
        """
        path = self._path(device)
        with _named(path, "removed"):
            path.unlink(missing_ok=True)
            if self._folder.exists():
                self._sync()

    def hold(self, device: str) -> TextIO | None:
        """Lock a device against other processes until the result is closed or this process dies.

        Within one process, the SDK prevents concurrent work on one claim.

        Returns:
            The open lock file, or None if another process works on the device.

        Raises:
            DraError: the folder is not writable.
        """
        path = self._folder / f"{device}.lock"
        with _named(path, "opened"):
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return lock

    def _path(self, device: str) -> Path:
        return self._folder / f"{device}.json"

    def _read(self, path: Path) -> Record | None:
        try:
            with _named(path, "read"):
                record = msgspec.json.decode(path.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            self._set_aside(path, error)
            return None
        return record if record.boot == self.boot else None

    def _set_aside(self, path: Path, error: msgspec.MsgspecError) -> None:
        """Rename a damaged file. Only its own record is lost: its instance then belongs to no claim."""
        aside = path.with_suffix(".damaged")
        with suppress(FileNotFoundError), _named(path, "set aside"):
            path.replace(aside)
            _log.error(
                "%s is damaged and is kept as %s; if it had an instance, that is to be destroyed by hand: %s",
                path,
                aside.name,
                error,
            )

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _named(path: Path, done: str) -> Iterator[None]:
    """Add the path to an error of the disk. A missing file is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise dra.DraError(f"{path} can't be {done}: {error}") from error
