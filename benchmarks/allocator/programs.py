"""Runs the programs that place a workload's pods, dradriver's and kube-scheduler's plugin, as processes."""

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.allocator.placing import Figures
from benchmarks.allocator.workloads import Workload, write
from benchmarks.peers import ROOT
from tests.interop import oracle

__all__ = ["Programs"]

_SOURCE = Path(__file__).parent / "kubescheduler"


class Programs:
    """Runs both programs.

    Args:
        folder: folder for the workloads' files and the Go program.
        with_peer: whether to build and run the Go program.
    """

    def __init__(self, folder: Path, *, with_peer: bool) -> None:
        self._folder = folder
        self.peer = oracle.build(_SOURCE, folder) if with_peer and oracle.GO else None

    def file(self, workload: Workload) -> Path:
        """Write the file of a workload and return its path."""
        path = self._folder / "workload.json"
        write(workload, path)
        return path

    def place(self, path: Path, order: str) -> Figures:
        """Return the figures of dradriver for all pods."""
        module = "benchmarks.allocator.placing"
        return _figures([sys.executable, "-m", module, f"--order={order}", str(path)])

    def place_by_peer(self, path: Path, pods: int) -> Figures | None:
        """Return the figures of kube-scheduler's plugin for the first pods (0: all); None without Go."""
        return _figures([str(self.peer), f"-pods={pods}", str(path)]) if self.peer else None


def _figures(command: list[str]) -> Figures:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=Figures)
