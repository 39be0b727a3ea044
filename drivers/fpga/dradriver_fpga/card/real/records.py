"""What was programmed, for managers that can't be asked: kept in a file, believed while nothing denies it."""

import os
import threading
from pathlib import Path

import msgspec

from dradriver_fpga.card.errors import CardError
from dradriver_fpga.card.real.sysfs import read

__all__ = ["Record", "Records"]


class Record(msgspec.Struct, frozen=True):
    """That a target was programmed by this driver.

    Attributes:
        sha256: of the file.
        boot: when, in the kernel's words: its boot ID.
        inode: of the target's folder in sysfs, which is another one when the device came anew.
        afu_id: what the target said it held after it.
    """

    sha256: str
    boot: str
    inode: int
    afu_id: str


class Records:
    """The records of a node. A process that dies within a change has not made it: the file is replaced at once.

    Args:
        path: the file.
        boot_id: see `Host`.
    """

    def __init__(self, path: Path, boot_id: Path) -> None:
        self._path = path
        self._boot_id = boot_id
        self._lock = threading.Lock()

    def sha256(self, target: str, folder: Path, afu_id: str) -> str:
        """What the target holds; "" when that is not certain."""
        record = self._read().get(target)
        if record is None or record != self._record(record.sha256, folder, afu_id):
            return ""
        return record.sha256

    def forget(self, target: str) -> None:
        """The target, and all below it, is about to be programmed: durable before anything is written to it.

        Raises:
            CardError: that can't be kept.
        """
        with self._lock:
            records = self._read()
            self._write(
                {name: each for name, each in records.items() if not f"{name}/".startswith(f"{target}/")}
            )

    def remember(self, target: str, sha256: str, folder: Path, afu_id: str) -> None:
        """The target holds this now. A process that dies before it has the target programmed once more.

        Raises:
            CardError: that can't be kept.
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
            return {}  # nothing is certain then

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
