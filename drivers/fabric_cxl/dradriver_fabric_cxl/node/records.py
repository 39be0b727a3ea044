"""Records of what a claim has on the node: one file per device and share, in a folder that two processes share.

Blocking. A record is on disk before the kernel is changed, and is removed after everything is undone.

| side effect | if the process dies right after it |
|---|---|
| record written | the record is complete: the file is replaced in one step, and synced with its folder |
| record removed | nothing is left of the device on the node |
"""

import contextlib
import enum
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

import msgspec

import dradriver as dra
from dradriver_fabric_cxl.memory import MemoryMode

__all__ = ["DeviceLock", "DeviceRecord", "RecordState", "RecordStore"]

_log: Final = logging.getLogger(__name__)


class RecordState(enum.Enum):
    """Progress of a device."""

    MAKING = "making"
    USABLE = "usable"
    TAKING_BACK = "taking back"


class DeviceRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A device that a claim has on this node.

    Attributes:
        claim: UID of the claim.
        pool, device, share: the device, as the pool driver published it.
        serial: serial number of the memory or accelerator.
        boot: ID of the boot in which the record was written. Regions do not survive a reboot.
        mode: how the memory is used; None: the device is an accelerator, of which nothing is made.
        state: progress.
        region, dax: kernel's names of the memory; "" until it is made. For people: the serial number identifies
            the memory, because names come again.
    """

    claim: str
    pool: str
    device: str
    share: str = ""
    serial: int
    boot: str
    mode: MemoryMode | None
    state: RecordState = RecordState.MAKING
    region: str = ""
    dax: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """Identifies the record."""
        return self.claim, self.pool, self.device, self.share, self.serial


class DeviceLock:
    """A lock against other calls and processes. It is released when this process dies.

    Args:
        path: the lock file. Its folder is created if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def acquire(self) -> bool:
        """Take the lock; return False if somebody else holds it.

        Raises:
            DraError: the folder is not writable.
        """
        with _name_path(self._path, "opened"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._file is not None:
            self._file.close()
            self._file = None


class RecordStore:
    """The records in a folder.

    Args:
        folder: the folder. It is created if it is missing.
        boot: ID of the current boot.
    """

    def __init__(self, folder: Path, boot: str) -> None:
        self._folder = folder
        self.boot = boot

    def all(self) -> list[DeviceRecord]:
        """Return every record, of earlier boots too."""
        records = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [record for record in records if record is not None]

    def put(self, record: DeviceRecord) -> None:
        """Write a record; it replaces the record with the same key.

        Raises:
            DraError: the disk is full, or the folder is not writable.
        """
        path = self._path(record)
        with _name_path(path, "written"), self._lock_files():
            temporary = self._folder / "record.new"
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(record))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            self._sync()

    def remove(self, record: DeviceRecord) -> None:
        """Remove a record; a no-op if it does not exist.

        Raises:
            DraError: the folder is not writable.
        """
        path = self._path(record)
        with _name_path(path, "removed"), self._lock_files():
            path.unlink(missing_ok=True)
            self._sync()

    def make_lock(self, serial: int) -> "DeviceLock":
        """Return the lock of a device, which nobody holds through this object yet.

        Args:
            serial: serial number.
        """
        return DeviceLock(self._folder / f"{serial:x}.lock")

    def _path(self, record: DeviceRecord) -> Path:
        key = "\0".join(map(str, record.key))
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def _read(self, path: Path) -> DeviceRecord | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=DeviceRecord)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise dra.DraError(f"{path} cannot be read: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            damaged = path.with_suffix(".damaged")
            with contextlib.suppress(OSError):
                path.replace(damaged)
            _log.error(
                "%s is damaged and was moved to %s; unprepare of its claim finds the memory by the claim: %s",
                path,
                damaged.name,
                error,
            )
            return None

    @contextmanager
    def _lock_files(self) -> Iterator[None]:
        """Keep other threads and processes from writing, for some milliseconds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "write.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _name_path(path: Path, action: str) -> Iterator[None]:
    """Add the path to an error of the disk."""
    try:
        yield
    except OSError as error:
        raise dra.DraError(f"{path} cannot be {action}: {error.strerror}") from error
