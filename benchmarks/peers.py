"""The measured drivers: the same eight devices and the same durable work in Python and in Go."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.driver import BenchDriver, PlainBenchDriver

__all__ = ["ROOT", "Peer", "go_peers", "python_peers", "with_slower_syncs"]

ROOT = Path(__file__).resolve().parent.parent
GO_SOURCE = ROOT / "tests" / "interop" / "kubeletplugin"


@dataclass(frozen=True)
class Peer:
    """Program of a driver.

    Attributes:
        title: its column in the table.
        driver: name of the driver in the cluster.
        command: the program; folders, kubeconfig and node name are added as flags.
        environment: its environment; empty: the benchmark's own.
    """

    title: str
    driver: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def python_peers() -> list[Peer]:
    """Return drivers on dradriver, started by `dradriver run` with bytecode files, as after an installation.

    The methods of the first one are coroutines. Those of the second one are plain functions.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(_cache() / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    everything = "import benchmarks.driver, dradriver.cli.main, dradriver.runner.serve, yaml, prometheus_client"
    subprocess.run([sys.executable, "-c", everything], cwd=ROOT, check=True, env=environment)
    program = str(Path(sys.executable).parent / "dradriver")
    return [
        Peer(title, driver.name, (program, "run", f"{driver.__module__}:{driver.__name__}"), environment)
        for title, driver in (("dradriver", BenchDriver), ("dradriver, plain def", PlainBenchDriver))
    ]


def go_peers() -> list[Peer]:
    """Return drivers on the Go helper library in both of its modes, built into the user's cache.

    The first one uses the library's default: one call of the kubelet at a time. The second one allows
    concurrent calls (`Serialize(false)`), as dradriver always does. Without Go the result is empty.
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
    """Return the same driver on a disk with slower syncs: strace delays each sync by `milliseconds`.

    Other system calls are not traced (seccomp), and the tracer is a separate process.
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
