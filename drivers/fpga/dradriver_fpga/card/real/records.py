"""A file of written bitstreams, for managers that do not report their content.

A record is valid until another fact contradicts it.
"""

import os
import threading
from pathlib import Path

import msgspec

from dradriver_fpga.card.errors import CardError
from dradriver_fpga.card.real.sysfs import read

__all__ = ["Record", "Records"]


class Record(msgspec.Struct, frozen=True):
    """Record that this driver programmed a target.

    Attributes:
        sha256: digest of the file.
        boot: boot ID of the kernel at that time.
        inode: inode of the target's folder in sysfs. It changes if the device is added again.
        afu_id: AFU ID that the target reported afterwards.
    """

    sha256: str
    boot: str
    inode: int
    afu_id: str


class Records:
    """The records of a node.

    The file is replaced atomically, so a process that dies during a change leaves the old one.

    Args:
        path: the file.
        boot_id: see `Host`.
    """

    def __init__(self, path: Path, boot_id: Path) -> None:
        self._path = path
        self._boot_id = boot_id
        self._lock = threading.Lock()

    def sha256(self, target: str, folder: Path, afu_id: str) -> str:
        """Return the sha256 of the target's content; "" if it is unknown."""
        record = self._read().get(target)
        if record is None or record != self._record(record.sha256, folder, afu_id):
            return ""
        return record.sha256

    def forget(self, target: str) -> None:
        """Remove the records of the target and of everything below it, before it is programmed.

        The change is durable when this returns.

        Raises:
            CardError: the file cannot be written.
        """
        with self._lock:
            records = self._read()
            self._write(
                {name: each for name, each in records.items() if not f"{name}/".startswith(f"{target}/")}
            )

    def remember(self, target: str, sha256: str, folder: Path, afu_id: str) -> None:
        """Record the content of a target. If the process dies before, the target is programmed once more.

        Raises:
            CardError: the file cannot be written.
        """
        with self._lock:
            self._write({**self._read(), target: self._record(sha256, folder, afu_id)})

    def _record(self, sha256: str, folder: Path, afu_id: str) -> Record:
        try:
            inode = folder.stat().st_ino
        except OSError:
            inode = -1
        return Record(sha256, read(self._boot_id), inode, afu_id)

    def _read(self) -> dict[str, Record]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Record])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            return {}  # without the file, all content is unknown

    def _write(self, records: dict[str, Record]) -> None:
        unfinished = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(msgspec.json.encode(records))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._path)
        except OSError as error:
            raise CardError(f"{self._path} can't be written: {error.strerror}") from error
