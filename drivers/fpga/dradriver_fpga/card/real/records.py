"""Stores which bitstreams were written, because some managers do not report their content.

A record is valid until the node reboots, the device is added again, or the device reports another AFU ID.
"""

import os
import threading
from pathlib import Path

import msgspec

from dradriver_fpga.card.errors import FpgaError
from dradriver_fpga.card.real.sysfs import read

__all__ = ["ContentRecord", "ContentRecords"]


class ContentRecord(msgspec.Struct, frozen=True):
    """A record that this driver has programmed a target.

    Attributes:
        sha256: digest of the file.
        boot: boot ID of the kernel when the target was programmed.
        inode: inode of the target's folder in sysfs. The inode changes if the device is added again.
        afu_id: AFU ID that the target reported afterwards.
    """

    sha256: str
    boot: str
    inode: int
    afu_id: str


class ContentRecords:
    """The records of a node.

    The file is replaced atomically, so if a process dies during a change, the old file remains.

    Args:
        path: the file.
        boot_id: see `FpgaHost`.
    """

    def __init__(self, path: Path, boot_id: Path) -> None:
        self._path = path
        self._boot_id = boot_id
        self._lock = threading.Lock()

    def sha256(self, target: str, folder: Path, afu_id: str) -> str:
        """Return the sha256 of the target's content; "" if the content is unknown."""
        record = self._read().get(target)
        if record is None or record != self._record(record.sha256, folder, afu_id):
            return ""
        return record.sha256

    def invalidate(self, target: str) -> None:
        """Remove the records of the target and of everything below it. Call this before programming the target.

        When this method returns, the change is durable.

        Raises:
            FpgaError: the file cannot be written.
        """
        with self._lock:
            records = self._read()
            self._write(
                {name: each for name, each in records.items() if not f"{name}/".startswith(f"{target}/")}
            )

    def record_content(self, target: str, sha256: str, folder: Path, afu_id: str) -> None:
        """Record the content of a target. If the process dies before this call, the target is programmed again.

        Raises:
            FpgaError: the file cannot be written.
        """
        with self._lock:
            self._write({**self._read(), target: self._record(sha256, folder, afu_id)})

    def _record(self, sha256: str, folder: Path, afu_id: str) -> ContentRecord:
        try:
            inode = folder.stat().st_ino
        except OSError:
            inode = -1
        return ContentRecord(sha256, read(self._boot_id), inode, afu_id)

    def _read(self) -> dict[str, ContentRecord]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, ContentRecord])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            return {}  # without the file, all content is unknown

    def _write(self, records: dict[str, ContentRecord]) -> None:
        temporary = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(records))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise FpgaError(f"{self._path} cannot be written: {error.strerror}") from error
