"""The drivers that are measured: the same eight devices and the same durable work in Python and in Go."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Peer", "go_peers", "python_peer"]

ROOT = Path(__file__).resolve().parent.parent
GO_SOURCE = ROOT / "tests" / "interop" / "kubeletplugin"


@dataclass(frozen=True)
class Peer:
    """A driver's program.

    Attributes:
        title: its column in the table.
        driver: the driver's name in the cluster.
        command: the program; folders, kubeconfig and node name are added as flags.
    """

    title: str
    driver: str
    command: tuple[str, ...]


def python_peer() -> Peer:
    """A driver on dradriver."""
    return Peer("dradriver", "bench.example.com", (sys.executable, "-m", "benchmarks.driver"))


def go_peers() -> list[Peer]:
    """A driver on the Go helper library, built into the user's cache, in both of its modes; none without Go.

    The first has the library's default: one call of the kubelet at a time. The other one's author has promised
    that calls may run side by side (`Serialize(false)`), as dradriver runs them always.
    """
    go = shutil.which("go")
    if go is None:
        return []
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dradriver"
    binary = cache / "kubeletplugin-driver"
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [go, "build", "-o", str(binary), "."],
        cwd=GO_SOURCE,
        check=True,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
    )
    return [
        _go_peer(binary, "Go helper library", "go.example.com", "true"),
        _go_peer(binary, "Go, Serialize(false)", "go-parallel.example.com", "false"),
    ]


def _go_peer(binary: Path, title: str, driver: str, serialize: str) -> Peer:
    return Peer(title, driver, (str(binary), f"--driver={driver}", f"--serialize={serialize}"))
