"""The drivers that are measured: the same eight devices and the same durable work in Python and in Go."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

__all__ = ["ROOT", "Peer", "go_peers", "python_peer", "with_slower_syncs"]

ROOT = Path(__file__).resolve().parent.parent
GO_SOURCE = ROOT / "tests" / "interop" / "kubeletplugin"


@dataclass(frozen=True)
class Peer:
    """A driver's program.

    Attributes:
        title: its column in the table.
        driver: the driver's name in the cluster.
        command: the program; folders, kubeconfig and node name are added as flags.
        environment: what it runs in; the benchmark's own if empty.
    """

    title: str
    driver: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def python_peer() -> Peer:
    """A driver on dradriver, with its bytecode where an installation would have it: in a file."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(_cache() / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    everything = "import benchmarks.driver, dradriver.runner.serve, yaml, prometheus_client"
    subprocess.run([sys.executable, "-c", everything], cwd=ROOT, check=True, env=environment)
    return Peer("dradriver", "bench.example.com", (sys.executable, "-m", "benchmarks.driver"), environment)


def go_peers() -> list[Peer]:
    """A driver on the Go helper library, built into the user's cache, in both of its modes; none without Go.

    The first has the library's default: one call of the kubelet at a time. The other one's author has promised
    that calls may run side by side (`Serialize(false)`), as dradriver runs them always.
    """
    go = shutil.which("go")
    if go is None:
        return []
    binary = _cache() / "kubeletplugin-driver"
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


def with_slower_syncs(peer: Peer, milliseconds: float) -> Peer:
    """The same driver on a disk whose syncs take so much longer: strace holds back whoever waits for one.

    All other calls of the system go unwatched (seccomp), and the tracer is a process apart.
    """
    calls = "fsync,fdatasync"
    delay = f"inject={calls}:delay_exit={round(1000 * milliseconds)}"
    options = ("-D", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", f"trace={calls}", "-e", delay)
    return replace(peer, command=("strace", *options, *peer.command))


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dradriver"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _go_peer(binary: Path, title: str, driver: str, serialize: str) -> Peer:
    return Peer(title, driver, (str(binary), f"--driver={driver}", f"--serialize={serialize}"))
