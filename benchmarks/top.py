"""`python -m benchmarks.top`: the CPU time and the output of `dradriver top` in a large cluster that changes.

The API server and `top` run in their own processes; `top` has a pseudo-terminal. Each node has A100 GPUs with
every MIG placement. Claims get and release partitions at a steady rate, each on another node. The table reports
the rate that the API server reached: a change is an allocation or a deletion that it has confirmed.
"""

import argparse
import asyncio
import fcntl
import os
import pty
import struct
import sys
import tempfile
import termios
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.allocator.workloads.devices import DRIVER, Template, mig_node, partition_name
from benchmarks.peers import ROOT
from benchmarks.report import markdown
from benchmarks.servers import SERVERS
from benchmarks.waiting import each
from dradriver.kube import CLAIMS, NODES, SLICES, Client
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders

_FRAME: Final = b"\x1b[?2026h"
_SETTLING_SECONDS: Final = 10


class Screen:
    """The terminal of `top`: counts what it writes."""

    def __init__(self, width: int, height: int) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.bytes = self.frames = 0
        self.is_drawn = asyncio.Event()

    def read(self) -> None:
        data = os.read(self.master, 1 << 16)
        self.bytes += len(data)
        self.frames += data.count(_FRAME)
        if self.frames:
            self.is_drawn.set()


@asynccontextmanager
async def start_top(kubeconfig: Path, screen: Screen) -> AsyncIterator[int]:
    """Run `dradriver top` in the terminal, and yield its process ID."""
    loop = asyncio.get_running_loop()
    loop.add_reader(screen.master, screen.read)
    command = (sys.executable, "-m", "dradriver.cli", "top", f"--kubeconfig={kubeconfig}")
    environment = {**os.environ, "TERM": "xterm-256color"}
    tty = screen.slave
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stdin=tty, stdout=tty, stderr=tty
    )
    try:
        await screen.is_drawn.wait()
        yield process.pid
    finally:
        process.terminate()
        await process.wait()
        loop.remove_reader(screen.master)


async def build(client: Client, names: Sequence[str], cards: int) -> None:
    """Create the nodes and their slices."""
    template = Template(mig_node(cards))
    await each(names, lambda name: client.create(NODES, builders.node(name), into=bytes))
    texts = [text for name in names for text in template.fill(name)]
    await each(texts, lambda text: client.create(SLICES, text, into=bytes))


class Changes:
    """Claims that come and go.

    Attributes:
        confirmed: number of allocations and deletions that the API server has confirmed.
    """

    def __init__(self, client: Client, names: Sequence[str], cards: int) -> None:
        self.confirmed = 0
        self._client = client
        self._names = names
        self._cards = cards

    async def make(self, rate: float) -> None:
        """Create and delete allocated claims, so many times a second together, until canceled."""
        if not rate:
            await asyncio.Event().wait()
        began = time.monotonic()
        for number in count():
            await asyncio.sleep(max(0.0, began + 2 * number / rate - time.monotonic()))
            node = self._names[number * 7 % len(self._names)]
            wanted = builders.claim(name=f"claim-{rate:g}-{number}")
            created = await self._client.create(CLAIMS, wanted, "default", into=ResourceClaim)
            device = partition_name(number % self._cards, "3g.20gb", 0)
            held = builders.allocated(created, device, driver=DRIVER, node_name=node)
            await self._client.replace(CLAIMS, held, "default", subresource="status", into=bytes)
            self.confirmed += 1
            self.confirmed += await self._client.delete(CLAIMS, created.metadata.name, "default")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure(changes: Changes, pid: int, screen: Screen, rate: float, seconds: float) -> list[str]:
    """Return the row of one rate of changes."""
    changing = asyncio.create_task(changes.make(rate))
    try:
        await asyncio.sleep(_SETTLING_SECONDS)
        began, cpu, written, frames = time.monotonic(), cpu_seconds(pid), screen.bytes, screen.frames
        confirmed = changes.confirmed
        await asyncio.sleep(seconds)
        elapsed, drawn = time.monotonic() - began, screen.frames - frames
        share, output = (cpu_seconds(pid) - cpu) / elapsed, screen.bytes - written
        reached = (changes.confirmed - confirmed) / elapsed
    finally:
        changing.cancel()
        await asyncio.wait({changing})
    if not changing.cancelled():
        changing.result()
    figures = (
        f"{share:.1%}",
        f"{drawn / elapsed:.2g}",
        f"{output / max(drawn, 1):.0f}",
        f"{memory_mib(pid):.0f}",
    )
    return [f"{rate:g}", f"{reached:.3g}", *figures]


async def main() -> int:
    """Print a table of the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.top", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--cards", type=int, default=8, help="GPUs of a node")
    parser.add_argument("--rates", type=float, nargs="+", default=[0, 10, 50], help="changes a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--size", type=int, nargs=2, default=[200, 60], metavar=("WIDTH", "HEIGHT"))
    options = parser.parse_args()
    names = [f"node-{number:04}" for number in range(options.nodes)]
    screen = Screen(*options.size)
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as folder:
        async with (
            SERVERS["embedded"](Path(folder)) as kubeconfigs,
            await Client.connect(str(kubeconfigs.admin)) as client,
        ):
            await build(client, names, options.cards)
            began = time.monotonic()
            async with start_top(kubeconfigs.admin, screen) as pid:
                print(
                    f"first picture after {time.monotonic() - began:.1f} s, {cpu_seconds(pid):.1f} s of CPU",
                    file=sys.stderr,
                )
                changes = Changes(client, names, options.cards)
                for rate in options.rates:
                    rows += [await measure(changes, pid, screen, rate, options.seconds)]
    head = (
        "changes/s wanted",
        "changes/s reached",
        "CPU of one core",
        "frames/s",
        "bytes a frame",
        "memory MiB",
    )
    print(markdown(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
