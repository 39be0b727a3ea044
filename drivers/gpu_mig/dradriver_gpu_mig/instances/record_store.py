"""Stores the records: one file per device, in a folder that two processes share during a rolling update.

Blocking, except `lock`. A record is on disk before the hardware is changed (`files.durable`).
"""

import logging
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.files import find_later_version, hold_lock, name_path, remove_file, write_file
from dradriver_gpu_mig.instances.record import RECORD_VERSION, DeviceRecord, HeldRecord

__all__ = ["RecordStore"]

_log: Final = logging.getLogger(__name__)

_FIRST_WITH_HOLDERS: Final = 3
"""First version of records that name several claims."""


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
        self.get(record.device)  # raises if the record is held
        content = msgspec.json.encode(msgspec.structs.replace(record, version=RECORD_VERSION))
        write_file(self._path(record.device), content)

    def delete(self, device: str) -> None:
        """Delete the record of a device, if it exists.

        Args:
            device: name of the device.

        Raises:
            DraError: the folder is not writable, or the record is held.
        """
        self.get(device)  # raises if the record is held
        remove_file(self._path(device))

    def lock(self, device: str, *, wait: bool = True) -> AbstractAsyncContextManager[None]:
        """Keep other processes from working on a device.

        Within one process, the SDK prevents concurrent work on one claim.

        Args:
            device: name of the device.
            wait: whether to wait for a while if another process works on the device.

        Returns:
            A context, in which this process has the device. It raises BusyError if another process has it.
        """
        return hold_lock(self._folder / f"{device}.lock", f"device {device}", wait=wait)

    def _path(self, device: str) -> Path:
        return self._folder / f"{device}.json"

    def _read_all(self) -> list[DeviceRecord | HeldRecord]:
        records = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [record for record in records if record is not None]

    def _read(self, path: Path) -> DeviceRecord | HeldRecord | None:
        try:
            with name_path(path, "read"):
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
        with suppress(FileNotFoundError), name_path(path, "moved aside"):
            path.replace(damaged)
            _log.error(
                "%s is damaged and was moved to %s; if it had an instance, destroy it by hand: %s",
                path,
                damaged.name,
                error,
            )


def _decode(content: bytes, device: str) -> DeviceRecord | HeldRecord:
    """Return the record in a file, or why this version cannot read it if a later version wrote it.

    Raises:
        MsgspecError: the file is damaged.
    """
    fields = msgspec.json.decode(content, type=dict[str, object])
    version = fields.get("version", 1)
    if isinstance(version, int) and version < _FIRST_WITH_HOLDERS and "claim" in fields:
        is_set = fields.pop("time_slice", False)  # to which interval is not recorded
        fields["holders"] = [{"claim": fields.pop("claim"), "has_unknown_time_slice": is_set}]
    if reason := find_later_version(fields, DeviceRecord, RECORD_VERSION):
        return HeldRecord(device=device, reason=reason)
    return msgspec.convert(fields, DeviceRecord)


def _read_boot(content: bytes) -> str:
    boot = msgspec.json.decode(content, type=dict[str, object]).get("boot", "")
    return boot if isinstance(boot, str) else ""
