"""Runs the programs that place a workload's pods, dradriver's and kube-scheduler's plugin, as processes."""

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.allocator.placing import Figures
from benchmarks.allocator.workloads import Workload, write
from benchmarks.peers import ROOT
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import DeviceResult
from tests.interop import oracle

__all__ = ["Choice", "Programs"]

_SOURCE = Path(__file__).parent / "kubescheduler"


class Choice(msgspec.Struct, frozen=True):
    """A pod's node and devices, as kube-scheduler's plugin chose them. An empty name: no node fits."""

    node: str
    devices: list[DeviceResult] | None


class Programs:
    """Runs both programs.

    Args:
        folder: folder for the workloads' files and the Go program.
        with_peer: whether to build and run the Go program.
    """

    def __init__(self, folder: Path, *, with_peer: bool) -> None:
        self._folder = folder
        self.peer = oracle.build(_SOURCE, folder) if with_peer and oracle.GO else None

    def file(self, workload: Workload, pods: int | None = None) -> Path:
        """Write the file of a workload with its first pods (None: all), and return its path.

        The path is always the same, because files of large clusters have several hundred megabytes.
        """
        path = self._folder / "workload"
        write(workload, path, pods)
        return path

    def place(self, path: Path, order: str) -> Figures:
        """Return the figures of dradriver for all pods of the file."""
        module = "benchmarks.allocator.placing"
        return _figures([sys.executable, "-m", module, f"--order={order}", str(path)])

    def place_by_peer(self, path: Path, pods: int) -> Figures | None:
        """Return the figures of kube-scheduler's plugin for the first pods of the file; None without Go."""
        return _figures([str(self.peer), f"-pods={pods}", str(path)]) if self.peer else None

    def choices_of_peer(self, path: Path) -> list[Choice]:
        """Return the choice of kube-scheduler's plugin for each pod of the file."""
        done = _run([str(self.peer), "-choices", str(path)])
        # The last line has the figures.
        return [decode(Choice, line) for line in done.splitlines()[:-1]]


def _figures(command: list[str]) -> Figures:
    return msgspec.json.decode(_run(command), type=Figures)


def _run(command: list[str]) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
