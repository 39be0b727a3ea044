"""`python -m benchmarks.waiting`: pods that wait for binding conditions in a large cluster (KEP-5007).

The embedded pipeline runs beside an API server in its own process. Each node has a slice of ordinary devices.
The devices with binding conditions are on a fabric that every node reaches. They become ready one by one at the
end.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.report import markdown, percentile
from benchmarks.servers import SERVERS
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, Client, PatchKind
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.testing import builders

T = TypeVar("T")

FABRIC: Final = "fabric.example.com"
READY: Final = f"{FABRIC}/attached"
FAILED: Final = f"{FABRIC}/attach-failed"
_IN_A_SLICE: Final = 128
_SIDE_BY_SIDE: Final = 16
_SAMPLES: Final = 100
_QUIET_SECONDS: Final = 5.0


async def each(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    """Run `work` for all items, for several at a time."""
    waiting = iter(items)

    async def take() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_SIDE_BY_SIDE):
            group.create_task(take())


def fabric(devices: int) -> Iterable[ResourceSlice]:
    """Return a pool of devices that have to be attached and that every node reaches."""
    count = -(-devices // _IN_A_SLICE)
    for number in range(count):
        first, last = number * _IN_A_SLICE, min(devices, (number + 1) * _IN_A_SLICE)
        yield ResourceSlice(
            api_version="resource.k8s.io/v1",
            kind="ResourceSlice",
            metadata=ObjectMeta(name=f"fabric-{number}"),
            spec=ResourceSliceSpec(
                driver=FABRIC,
                pool=PoolReference(name="fabric", generation=1, resource_slice_count=count),
                all_nodes=True,
                devices=[
                    Device(
                        f"gpu-{i}",
                        binds_to_node=True,
                        binding_conditions=[READY],
                        binding_failure_conditions=[FAILED],
                    )
                    for i in range(first, last)
                ],
            ),
        )


async def build(client: Client, nodes: int, pods: int) -> None:
    """Create nodes, slices and classes."""
    names = [f"node-{i}" for i in range(nodes)]
    local = (builders.slice_(builders.device("a"), builders.device("b"), node_name=name) for name in names)
    await each(names, lambda name: client.create(NODES, builders.node(name), into=bytes))
    await each((*local, *fabric(pods)), lambda body: client.create(SLICES, body, into=bytes))
    await client.create(CLASSES, builders.device_class(FABRIC), into=bytes)


class Pods:
    """The pods as the controllers see them, with methods that wait for their changes."""

    def __init__(self, controllers: Controllers) -> None:
        self.seen = controllers.caches.pods.items
        self._waiting: set[str] = set()
        self._changed = asyncio.Event()
        controllers.caches.pods.subscribe(self._record)

    def _record(self, _kind: object, _old: object, new: Pod | None) -> None:
        if new is not None and new.status.nominated_node_name:
            self._waiting.add(new.ref)
        elif new is not None:
            self._waiting.discard(new.ref)
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        """Return when `done` returns True."""
        while not done():
            self._changed.clear()
            await self._changed.wait()

    async def bound(self, name: str) -> None:
        """Return when the pod is bound to a node."""
        await self.until(lambda: bool((pod := self.seen.get(f"default/{name}")) and pod.spec.node_name))

    @property
    def waiting(self) -> int:
        """The number of pods with a nominated node."""
        return len(self._waiting)


def cpu_seconds(process: int | str) -> float:
    """Return the CPU time of a process that still runs."""
    # After the name, which ends with a parenthesis, the user and the system time are the 12th and 13th values.
    values = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu_seconds() -> float:
    """Return the CPU time of the processes that this process has started and that still run."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return sum(map(cpu_seconds, children))


async def make_waiting(client: Client, pods: Pods, count: int) -> tuple[float, float, float]:
    """Create pods whose devices are not ready.

    Returns:
        The seconds until all wait, and the seconds of CPU time of this process and of the API server.
    """

    async def make(name: str) -> None:
        claim = builders.claim(builders.device_request(FABRIC), name=name)
        await client.create(CLAIMS, claim, "default", into=bytes)
        await client.create(PODS, builders.pod(name, name=name), "default", into=bytes)

    began, used, served = time.monotonic(), time.process_time(), children_cpu_seconds()
    await each([f"pod-{i}" for i in range(count)], make)
    await pods.until(lambda: pods.waiting == count)
    return time.monotonic() - began, time.process_time() - used, children_cpu_seconds() - served


async def others(client: Client, pods: Pods) -> list[float]:
    """Return the seconds until pods without claims are bound, one after the other."""
    seconds = []
    for number in range(_SAMPLES):
        began = time.monotonic()
        name = f"other-{number}"
        await client.create(PODS, builders.pod(name=name), "default", into=bytes)
        await pods.bound(name)
        seconds.append(time.monotonic() - began)
    return seconds


def ready_device(claim: ResourceClaim) -> dict[str, object]:
    """Return the patch that sets the last condition of a claim's only device."""
    (result,) = claim.results
    condition = {"type": READY, "status": "True", "reason": "Ready", "message": ""}
    condition["lastTransitionTime"] = rfc3339(datetime.now(UTC))
    entry = {"driver": FABRIC, "pool": "fabric", "device": result.device, "conditions": [condition]}
    return {"status": {"devices": [entry]}}


async def last_conditions(client: Client, pods: Pods) -> list[float]:
    """Return the seconds from a pod's last condition to its binding, one pod after the other."""
    seconds = []
    for number in range(_SAMPLES):
        name = f"pod-{number}"
        claim = await client.get(CLAIMS, name, "default", into=ResourceClaim)
        body = ready_device(claim)
        began = time.monotonic()
        await client.patch(CLAIMS, name, "default", body, PatchKind.MERGE, into=bytes, subresource="status")
        await pods.bound(name)
        seconds.append(time.monotonic() - began)
    return seconds


def resident_kibibytes(process: int | str = "self") -> int:
    """Return the present memory (VmRSS) of a process in KiB; the default is this process."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


async def measure(client: Client, pods: int) -> Iterable[Sequence[str]]:
    """Return the rows of the table."""
    rows: list[tuple[str, str]] = []
    began = time.monotonic()
    async with Controllers(client, SchedulerSettings(binding_timeout=timedelta(hours=1))) as controllers:
        rows.append(("start of the controllers, s", f"{time.monotonic() - began:.3g}"))
        seen = Pods(controllers)
        await client.create(PODS, builders.pod(name="first"), "default", into=bytes)
        await seen.bound("first")
        before = resident_kibibytes()
        seconds, cpu, server_cpu = await make_waiting(client, seen, pods)
        rows.append((f"until all {pods} pods wait, s", f"{seconds:.3g}"))
        rows.append(("CPU of the controllers and the client in this time, s", f"{cpu:.3g}"))
        rows.append(("CPU of the API server in this time, s", f"{server_cpu:.3g}"))
        rows.append(("pods a second", f"{pods / seconds:.3g}"))
        rows.append(("memory for each pod that waits, KiB", f"{(resident_kibibytes() - before) / pods:.3g}"))
        began, used = time.monotonic(), time.process_time()
        await asyncio.sleep(_QUIET_SECONDS)
        share = (time.process_time() - used) / (time.monotonic() - began)
        rows.append(("CPU while all wait, % of a core", f"{100 * share:.2g}"))
        for figure, samples in (
            ("pod without claims beside them, creation to binding", await others(client, seen)),
            ("last condition to binding", await last_conditions(client, seen)),
        ):
            rows += [(f"{figure}, p{p}, ms", f"{1000 * percentile(samples, p):.3g}") for p in (50, 99)]
    return rows


async def main() -> int:
    """Build a cluster, let pods wait in it, and print the cost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000, help="that wait at one time, 100 at least")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as directory:
        embedded = SERVERS["embedded"](Path(directory))
        async with embedded as kubeconfigs, await Client.connect(str(kubeconfigs.admin)) as client:
            print(f"{options.nodes} nodes, each with a slice", file=sys.stderr)
            await build(client, options.nodes, options.pods)
            print(f"{options.pods} pods wait", file=sys.stderr)
            print(markdown(["figure", "dradriver"], await measure(client, options.pods)))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
