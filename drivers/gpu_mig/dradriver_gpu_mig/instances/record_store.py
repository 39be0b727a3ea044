"""Stores the records: one file per device, in a folder that two processes share during a rolling update.

Blocking.

A file is replaced atomically. The file and its folder are synced before the hardware is changed. If a process
dies right after a write, the new record is complete. If a process dies right before a write, the new record
does not exist.
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
from dradriver_gpu_mig.instances.record import RECORD_VERSION, DeviceRecord, HeldRecord

__all__ = ["RecordStore"]

_log: Final = logging.getLogger(__name__)


class RecordStore:
    """The records of this boot in a folder.

    Args:
        folder: folder of the records, which is created if it is missing.
        boot: ID of the current boot. Records of another boot are ignored.
    """

    def __init__(self, folder: Path, boot: str) -> None:
        self._folder = folder
        self.boot = boot
        self._reported: set[str] = set()

    def all(self) -> list[DeviceRecord]:
        """Return every record of this boot, sorted by device name, except held records."""
        return [record for record in self._read_all() if isinstance(record, DeviceRecord)]

    def held(self) -> list[HeldRecord]:
        """Return the records of this boot that a later version of the driver wrote, sorted by device name."""
        return [record for record in self._read_all() if isinstance(record, HeldRecord)]

    def get(self, device: str) -> DeviceRecord | None:
        """Return the record of a device, or None.

        Args:
            device: name of the device.

        Raises:
            DraError: a later version of the driver wrote the record.
        """
        record = self._read(self._path(device))
        if isinstance(record, HeldRecord):
            raise dra.DraError(
                f"device {device}: {self._path(device)} was written by a later version of this driver "
                f"({record.reason}): run that version until the device is released"
            )
        return record

    def put(self, record: DeviceRecord) -> None:
        """Write a record. When this method returns, the record is on disk.

        Args:
            record: the record, which replaces an earlier record of the device.

        Raises:
            DraError: the disk is full, the folder is not writable, or the present record is held.
        """
        path = self._path(record.device)
        self.get(record.device)  # raises if the record is held
        temporary = path.with_suffix(".new")
        with _name_path(path, "written"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(msgspec.structs.replace(record, version=RECORD_VERSION)))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            self._sync()

    def delete(self, device: str) -> None:
        """Delete the record of a device, if it exists.

        Args:
            device: name of the device.

        Raises:
            DraError: the folder is not writable, or the record is held.
        """
        path = self._path(device)
        self.get(device)  # raises if the record is held
        with _name_path(path, "removed"):
            path.unlink(missing_ok=True)
            if self._folder.exists():
                self._sync()

    def lock(self, device: str) -> TextIO | None:
        """Lock a device against other processes until the result is closed or this process dies.

        Within one process, the SDK prevents concurrent work on one claim.

        Args:
            device: name of the device.

        Returns:
            The open lock file, or None if another process is working on the device.

        Raises:
            DraError: the folder is not writable.
        """
        path = self._folder / f"{device}.lock"
        with _name_path(path, "opened"):
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

    def _read_all(self) -> list[DeviceRecord | HeldRecord]:
        records = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [record for record in records if record is not None]

    def _read(self, path: Path) -> DeviceRecord | HeldRecord | None:
        try:
            with _name_path(path, "read"):
                content = path.read_bytes()
            record = _decode(content, path.stem)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            self._move_aside(path, error)
            return None
        if isinstance(record, HeldRecord):
            return self._report(path, record) if _read_boot(content) in {"", self.boot} else None
        return record if record.boot == self.boot else None

    def _report(self, path: Path, record: HeldRecord) -> HeldRecord:
        if record.device not in self._reported:
            self._reported.add(record.device)
            _log.error(
                "%s was written by a later version of this driver (%s): device %s is not handed out, and "
                "nothing of it is changed, until that version runs again",
                path,
                record.reason,
                record.device,
            )
        return record

    def _move_aside(self, path: Path, error: msgspec.MsgspecError) -> None:
        """Rename a damaged file. Only its record is lost, so the record's instance then belongs to no claim."""
        damaged = path.with_suffix(".damaged")
        with suppress(FileNotFoundError), _name_path(path, "moved aside"):
            path.replace(damaged)
            _log.error(
                "%s is damaged and was moved to %s; if it had an instance, destroy it by hand: %s",
                path,
                damaged.name,
                error,
            )

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _decode(content: bytes, device: str) -> DeviceRecord | HeldRecord:
    """Return the record in a file, or what of it this version can read if a later version wrote it.

    Raises:
        MsgspecError: the file is damaged.
    """
    fields = msgspec.json.decode(content, type=dict[str, object])
    claim = fields.get("claim")
    held = HeldRecord(device=device, claim=claim if isinstance(claim, str) else "", reason="")
    version = fields.get("version", 1)
    if not isinstance(version, int) or version > RECORD_VERSION:
        return msgspec.structs.replace(held, reason=f"its version is {version}")
    if unknown := sorted(fields.keys() - set(DeviceRecord.__struct_encode_fields__)):
        return msgspec.structs.replace(held, reason=f"it has the unknown fields {', '.join(unknown)}")
    return msgspec.convert(fields, DeviceRecord)


def _read_boot(content: bytes) -> str:
    boot = msgspec.json.decode(content, type=dict[str, object]).get("boot", "")
    return boot if isinstance(boot, str) else ""


@contextmanager
def _name_path(path: Path, action: str) -> Iterator[None]:
    """Add the path to an error of the disk. The error of a missing file is unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise dra.DraError(f"{path} cannot be {action}: {error}") from error
