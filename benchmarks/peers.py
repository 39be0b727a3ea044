"""The drivers that are measured: the same eight devices and the same durable work in Python and in Go."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Peer", "go_peer", "python_peer"]

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


def go_peer() -> Peer | None:
    """A driver on the Go helper library, built into the user's cache; None without Go."""
    go = shutil.which("go")
    if go is None:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dradriver"
    binary = cache / "kubeletplugin-driver"
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [go, "build", "-o", str(binary), "."],
        cwd=GO_SOURCE,
        check=True,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
    )
    return Peer("Go helper library", "peer.example.com", (str(binary),))
