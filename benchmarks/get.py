"""`python -m benchmarks.get`: the time and the memory of `dradriver get` in a large cluster.

The API server and each command run in their own processes. Each node has one slice with several devices.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers import ROOT
from benchmarks.report import markdown
from benchmarks.servers import SERVERS
from benchmarks.waiting import each
from dradriver.kube import SLICES, Client
from dradriver.testing import builders

_COMMANDS: Final = ("devices", "devices -o json", "devices -o yaml", "pools", "slices", "slices -o name")


async def build(client: Client, nodes: int, devices: int) -> None:
    """Create the slices."""
    offered = [builders.device(f"gpu-{number}") for number in range(devices)]
    slices = [builders.slice_(*offered, node_name=f"node-{number:04}") for number in range(nodes)]
    await each(slices, lambda one: client.create(SLICES, one, into=bytes))


def measure(kubeconfig: Path, words: Sequence[str], output: Path) -> list[str]:
    """Return the row of one command: seconds, seconds of CPU, memory and lines of the output."""
    command = (sys.executable, "-m", "dradriver.cli", "get", *words, f"--kubeconfig={kubeconfig}")
    began = time.monotonic()
    with output.open("wb") as file:
        files = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1)]
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=files)
        _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - began
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    with output.open("rb") as file:
        lines = sum(1 for _ in file)
    return [
        f"`get {' '.join(words)}`",
        f"{seconds:.1f}",
        f"{usage.ru_utime + usage.ru_stime:.1f}",
        f"{usage.ru_maxrss / 1024:.0f}",
        f"{lines:,}",
    ]


async def main() -> int:
    """Print a table of the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.get", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8, help="devices of a node")
    options = parser.parse_args()
    os.chdir(ROOT)
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as folder:
        async with SERVERS["embedded"](Path(folder)) as kubeconfigs:
            async with await Client.connect(str(kubeconfigs.admin)) as client:
                await build(client, options.nodes, options.devices)
            for command in _COMMANDS:
                output = Path(folder) / "output"
                rows += [await asyncio.to_thread(measure, kubeconfigs.admin, command.split(), output)]
    print(markdown(("command", "seconds", "CPU seconds", "memory MiB", "lines"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
