"""What a bed changes on the machine: on record before it is changed, taken back by it or by the next one.

A bed whose process was killed takes nothing back. The next bed finds its record and does so in its place.
What beds share (sysctls and the folders that nodes mount over) goes back with the last of them.
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

from tests.e2e import cgroups
from tests.e2e.network import free_number

PLACE: Final = Path("/tmp")
PREFIX: Final = "dradriver-bed-"
SYSCTLS: Final = (
    "kernel.keys.root_maxbytes", "kernel.keys.root_maxkeys", "kernel.panic", "kernel.panic_on_oops",
    "net.ipv4.ip_forward", "vm.overcommit_memory", "vm.panic_on_oom",
)  # fmt: skip
"""What the kubelet and the network plugin set."""
FOLDERS: Final = ("/etc/cdi", "/run/cdi", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet")
"""What a node mounts over, in a mount namespace of its own, and has to exist for that."""


@contextmanager
def _lock() -> Iterator[None]:
    """One bed at a time looks at the others."""
    with (PLACE / f"{PREFIX}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _started(pid: int) -> str:
    """When a process was started, in ticks; "" for one that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _sysctl(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def living() -> list[Path]:
    """The folders of the beds that are up."""
    with _lock():
        return [each.folder for each in Changes.others() if each.alive()]


def sweep() -> None:
    """Take back what beds of dead processes have left."""
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
        """A folder for a new bed, after those of dead processes were removed; short, for sockets' sake."""
        with _lock():
            _sweep()
            changes = cls(Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE)))
            changes._write({
                "pid": os.getpid(), "started": _started(os.getpid()), "addresses": [], "shared": None,
                "number": free_number(each.number for each in cls.others(changes.folder)),
            })  # fmt: skip
            return changes

    @classmethod
    def others(cls, mine: Path | None = None) -> list["Changes"]:
        """The records of all beds, or of those but one."""
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
        """Which network the bed has."""
        return int(self._read().get("number", 0))

    def alive(self) -> bool:
        """Whether the process that began it still runs."""
        record = self._read()
        return bool(record["started"]) and _started(record["pid"]) == record["started"]

    def add_address(self, address: str) -> None:
        """Give the loopback interface an address."""
        with _lock():
            record = self._read()
            self._write({**record, "addresses": [*record["addresses"], address]})
        subprocess.run(("ip", "address", "add", f"{address}/32", "dev", "lo"), check=True, capture_output=True)

    def prepare_for_nodes(self) -> None:
        """Note the sysctls, make the folders."""
        with _lock():
            record = self._read()
            if record["shared"] is not None:
                return
            # What another bed found is what was there before both.
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
        """The name of the bed's control groups."""
        return self.folder.name

    def undo(self) -> None:
        """Take everything back and remove the folder."""
        with _lock():
            if self.folder.exists():
                self._undo()

    def _undo(self) -> None:
        record = self._read()
        cgroups.kill(self.group)
        cgroups.remove(self.group)
        for address in record["addresses"]:
            # Gone already, if it was killed between the record and the change.
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
        # The record goes last: what is left by a death in between is found again.
        for each in self.folder.iterdir():
            if each != self._file:
                shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
