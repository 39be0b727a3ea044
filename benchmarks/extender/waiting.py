"""`python -m benchmarks.extender.waiting`: pods that wait for binding conditions in a large cluster (KEP-5007).

kube-scheduler holds a connection to the extender for each pod that waits. Nodes have no kubelet. The devices
with binding conditions are on a fabric that every node reaches. They become ready one by one at the end.
"""

import argparse
import asyncio
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.allocator.workloads.stream import named_nodes
from benchmarks.extender.cluster import NAMESPACE, build, control_plane_only, extender, pod
from benchmarks.extender.held_connections import measure_connection
from benchmarks.report import markdown, percentile
from benchmarks.waiting import FABRIC, each, fabric, ready_device, resident_kibibytes
from dradriver.kube import CLAIMS, PODS, Cache, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.ports import reserve_port

_OTHERS: Final = 200
_ROUNDS: Final = 5
_READY_PODS: Final = 50
_QUIET_SECONDS: Final = 5.0


class Pods:
    """The pods as a client sees them."""

    def __init__(self, client: Client, profile: str) -> None:
        self.client = client
        self._profile = profile
        self._cache = Cache(client, PODS, Pod, NAMESPACE)
        self._changed = asyncio.Event()
        self._cache.subscribe(lambda *_: self._changed.set())

    async def __aenter__(self) -> "Pods":
        await self._cache.__aenter__()
        await self._cache.wait_synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cache.__aexit__(None, None, None)

    async def until(self, done: Callable[[Mapping[str, Pod]], bool]) -> None:
        """Return when `done` returns True for the pods by name."""
        while not done({item.metadata.name: item for item in self._cache.items.values()}):
            self._changed.clear()
            await self._changed.wait()

    async def bound(self, names: Iterable[str]) -> None:
        """Return when the pods have nodes."""
        wanted = list(names)
        await self.until(lambda pods: all(name in pods and pods[name].spec.node_name for name in wanted))

    async def create(self, name: str, claim: str | None = None) -> None:
        """Create a pod of the profile."""
        await self.client.create(PODS, pod(name, self._profile, claim), NAMESPACE, into=bytes)


async def make_waiting(pods: Pods, names: Sequence[str], before: int = 0) -> float:
    """Create pods whose devices are not ready, and return the seconds until all wait.

    Args:
        pods: creates and observes the pods.
        names: the names of the pods and of their claims.
        before: number of pods that wait already.
    """

    async def make(name: str) -> None:
        claim = builders.claim(builders.device_request(FABRIC), name=name)
        await pods.client.create(CLAIMS, claim, NAMESPACE, into=bytes)
        await pods.create(name, name)

    began = time.monotonic()
    await each(names, make)
    await pods.until(
        lambda known: (
            sum(bool(item.status.nominated_node_name) for item in known.values()) == before + len(names)
        )
    )
    return time.monotonic() - began


async def others(pods: Pods, prefix: str) -> float:
    """Return the median rate at which pods without claims are bound, in pods a second."""
    return median([await _bind_others(pods, f"{prefix}-{number}") for number in range(_ROUNDS)])


async def _bind_others(pods: Pods, prefix: str) -> float:
    names = [f"{prefix}-{number}" for number in range(_OTHERS)]
    began = time.monotonic()
    await each(names, pods.create)
    await pods.bound(names)
    rate = len(names) / (time.monotonic() - began)
    await each(names, lambda name: pods.client.delete(PODS, name, NAMESPACE, grace_seconds=0))
    return rate


async def last_condition(pods: Pods, name: str) -> float:
    """Return the seconds from the last condition of a pod to its binding."""
    claim = await pods.client.get(CLAIMS, name, NAMESPACE, into=ResourceClaim)
    body = ready_device(claim)
    began = time.monotonic()
    await pods.client.patch(CLAIMS, name, NAMESPACE, body, PatchKind.MERGE, into=bytes, subresource="status")
    await pods.bound([name])
    return time.monotonic() - began


class Process:
    """The extender's process."""

    def __init__(self, pid: int, metrics_port: int) -> None:
        self._pid = pid
        self._port = metrics_port

    def resident_kibibytes(self) -> int:
        """Return the present memory (VmRSS) in KiB."""
        return resident_kibibytes(self._pid)

    def live_cpu_seconds(self) -> float:
        """Return the CPU time of all live threads, in more detail than the CPU time of the process."""
        tasks = Path(f"/proc/{self._pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9

    def decisions(self) -> float:
        """Return how many keys the queue of the extender has handed out."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        prefix = 'workqueue_adds_total{name="extender"}'
        return next((float(line.split()[-1]) for line in lines if line.startswith(prefix)), 0.0)


async def measure(pods: Pods, process: Process, count: int) -> Iterable[Sequence[str]]:
    """Return the rows of the table."""
    rows: list[tuple[str, str]] = []
    before_rate = await others(pods, "before")
    names = [f"pod-{number}" for number in range(count)]
    half = count // 2
    seconds = await make_waiting(pods, names[:half])
    # The first half also fills the pool of connections to the API server, which is not a cost of a pod.
    await asyncio.sleep(1)
    memory = process.resident_kibibytes()
    seconds += await make_waiting(pods, names[half:], half)
    await asyncio.sleep(1)
    rows.append((f"until all {count} pods wait, s", f"{seconds:.3g}"))
    grown = (process.resident_kibibytes() - memory) / (count - half)
    connection = await measure_connection(count)
    rows.append(("memory of the extender for each pod that waits, KiB", f"{grown - connection:.3g}"))
    rows.append(("memory of the connection that kube-scheduler holds for the pod, KiB", f"{connection:.3g}"))
    encrypted = await measure_connection(count, mutual_tls=True)
    rows.append(("memory of this connection with mutual TLS, KiB", f"{encrypted:.3g}"))
    began, used = time.monotonic(), process.live_cpu_seconds()
    await asyncio.sleep(_QUIET_SECONDS)
    share = (process.live_cpu_seconds() - used) / (time.monotonic() - began)
    rows.append(("CPU of the extender while all wait, % of a core", f"{100 * share:.2g}"))
    rows.append(
        (
            "pods without claims, pods/s, before and beside them",
            f"{before_rate:.0f} / {await others(pods, 'beside'):.0f}",
        )
    )
    decided = process.decisions()
    samples = [await last_condition(pods, name) for name in names[:_READY_PODS]]
    rows.append(("keys decided for each condition", f"{(process.decisions() - decided) / _READY_PODS:.3g}"))
    rows += [(f"last condition to binding, p{p}, ms", f"{1000 * percentile(samples, p):.3g}") for p in (50, 99)]
    return rows


async def main() -> int:
    """Build a cluster, let pods wait in it, and print the cost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extender.waiting", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000, help="that wait at one time, 50 at least")
    options = parser.parse_args()
    async with control_plane_only({}) as (bed, client):
        print(f"{options.nodes} nodes", file=sys.stderr)
        nodes = named_nodes(options.nodes)
        local = (
            builders.slice_(builders.device("a"), builders.device("b"), node_name=node.name) for node in nodes
        )
        await build(client, nodes, [builders.device_class(FABRIC)], [*local, *fabric(options.pods)])
        port = reserve_port()
        flags = (f"--metrics-port={port}", "--metrics-host=127.0.0.1", "--binding-timeout=3600")
        with extender(bed, "ordered", *flags) as profile:
            async with Pods(client, profile) as pods:
                await pods.create("first")
                await pods.bound(["first"])
                rows = await measure(pods, Process(bed.pid("dradriver-scheduler"), port), options.pods)
    print(markdown([f"{options.nodes} nodes", "extender"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
