"""Changes of a bed to the machine, recorded before they are made and reverted at its end.

A bed whose process was killed reverts nothing; the next bed finds its record and reverts the changes. Shared
changes (sysctls, and folders that nodes mount over) are reverted with the last bed.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.e2e.bed import cgroups
from tests.e2e.bed.network import free_number

PLACE: Final = Path("/tmp")
PREFIX: Final = "dradriver-bed-"
SYSCTLS: Final = (
    "kernel.keys.root_maxbytes", "kernel.keys.root_maxkeys", "kernel.panic", "kernel.panic_on_oops",
    "net.ipv4.ip_forward", "vm.overcommit_memory", "vm.panic_on_oom",
)  # fmt: skip
"""Sysctls that the kubelet and the network plugin set."""
FOLDERS: Final = ("/etc/cdi", "/run/cdi", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet")
"""Folders that must exist because a node mounts over them, in its own mount namespace."""


@contextmanager
def _lock() -> Iterator[None]:
    """Lock the records: one bed at a time reads those of the others."""
    with (PLACE / f"{PREFIX}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start_time(pid: int) -> str:
    """Return the start time of a process in ticks; "" for a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _sysctl(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def running_beds() -> list[Path]:
    """Return the folders of the beds whose process runs."""
    with _lock():
        return [each.folder for each in Changes.others() if each.alive()]


def sweep() -> None:
    """Revert the changes of beds whose processes have ended."""
    with _lock():
        _sweep()


def _sweep() -> None:
    for each in Changes.others():
        if not each.alive():
            each._undo()


class Changes:
    """The record of one bed.

    Attributes:
        folder: the bed's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "changes.json"

    @classmethod
    def begin(cls) -> "Changes":
        """Create the folder of a new bed, with a short path for sockets; revert changes of dead beds."""
        with _lock():
            _sweep()
            changes = cls(Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE)))
            changes._write({
                "pid": os.getpid(), "started": _start_time(os.getpid()), "addresses": [], "shared": None,
                "number": free_number(each.number for each in cls.others(changes.folder)),
            })  # fmt: skip
            return changes

    @classmethod
    def others(cls, mine: Path | None = None) -> list["Changes"]:
        """Return the records of all beds except one."""
        found = [cls(each.parent) for each in PLACE.glob(f"{PREFIX}*/changes.json")]
        return [each for each in found if each.folder != mine]

    def _read(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._file.read_text())
        return record

    def _write(self, record: dict[str, Any]) -> None:
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps(record))
        unfinished.rename(self._file)

    @property
    def number(self) -> int:
        """Return the number of the bed's network."""
        return int(self._read().get("number", 0))

    def alive(self) -> bool:
        """Return whether the process that started the bed still runs."""
        record = self._read()
        return bool(record["started"]) and _start_time(record["pid"]) == record["started"]

    def add_address(self, address: str) -> None:
        """Add an address to the loopback interface."""
        with _lock():
            record = self._read()
            self._write({**record, "addresses": [*record["addresses"], address]})
        subprocess.run(("ip", "address", "add", f"{address}/32", "dev", "lo"), check=True, capture_output=True)

    def prepare_for_nodes(self) -> None:
        """Record the sysctls and create the folders."""
        with _lock():
            record = self._read()
            if record["shared"] is not None:
                return
            # Another bed recorded the state before both.
            known = [shared for each in self.others(self.folder) if (shared := each._read()["shared"])]
            record["shared"] = known[0] if known else {
                "sysctls": {name: _sysctl(name).read_text() for name in SYSCTLS},
                "folders": [each for each in FOLDERS if not Path(each).exists()],
            }  # fmt: skip
            self._write(record)
            for each in FOLDERS:
                Path(each).mkdir(parents=True, exist_ok=True)

    @property
    def group(self) -> str:
        """Return the name of the bed's control groups."""
        return self.folder.name

    def undo(self) -> None:
        """Revert all changes and remove the folder."""
        with _lock():
            if self.folder.exists():
                self._undo()

    def _undo(self) -> None:
        record = self._read()
        cgroups.kill(self.group)
        cgroups.remove(self.group)
        for address in record["addresses"]:
            # The address is missing if the process was killed between the record and the change.
            subprocess.run(
                ("ip", "address", "delete", f"{address}/32", "dev", "lo"), check=False, capture_output=True
            )
        shared = record["shared"]
        if shared and not any(each._read()["shared"] for each in self.others(self.folder)):
            for name, value in shared["sysctls"].items():
                _sysctl(name).write_text(value)
            for each in shared["folders"]:
                with contextlib.suppress(OSError):
                    Path(each).rmdir()
        # The record is removed last, so that an interrupted removal is found again.
        for each in self.folder.iterdir():
            if each != self._file:
                shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
