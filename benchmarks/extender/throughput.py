"""`python -m benchmarks.extender.throughput`: pods a second behind a real kube-scheduler.

kube-apiserver and etcd run with nodes that have no kubelet. The same pods are scheduled alternately by
kube-scheduler with its own plugin DynamicResources, and by kube-scheduler with the extender. Claims
exist before the pods are created. A round ends when its pods are bound. The ratio is the median of the
ratios of the rounds.
"""

import argparse
import asyncio
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.allocator.workloads import Workload
from benchmarks.allocator.workloads.alike import mig, plain
from benchmarks.allocator.workloads.superpods import superpods
from benchmarks.extender.cluster import NAMESPACE, build, control_plane_only, extender, plugin, pod
from benchmarks.report import markdown
from benchmarks.waiting import cpu_seconds, each
from dradriver.kube import CLAIMS, PODS, Cache, Client, PatchKind
from dradriver.model.core.workload import Pod
from tests.ports import reserve_port

_ROWS: Final[Mapping[str, Callable[[], Workload]]] = {
    "plain-100": partial(plain, 100, 1),
    "plain-500": partial(plain, 500, 1),
    "mig-100": partial(mig, 100, 1),
    "mig-500": partial(mig, 500, 1),
    "superpods-256": partial(superpods, 256, 1),
}
_PROCESSES: Final = {"plugin": ("kube-scheduler",), "extender": ("extended-scheduler", "dradriver-scheduler")}
"""The scheduling processes of each peer, by their names on the bed."""
_HEAD: Final = (
    "row",
    "plugin, pods/s",
    "extender, pods/s",
    "ratio",
    "bound",
    "failed binds",
    "CPU ms a pod: kube-scheduler with plugin / with extender / extender",
)


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round.

    Attributes:
        seconds: the time from the creation of the first pod until all pods that fit were bound.
        bound: number of pods that were bound.
        failures: number of calls of `bind` that failed; 0 without an extender.
        cpu: CPU time of each scheduling process for each bound pod, in milliseconds.
    """

    seconds: float
    bound: int
    failures: int
    cpu: Mapping[str, float]


class Measurement:
    """Places the same pods again and again.

    Args:
        client: the API server.
        workload: the pods.
        pods: number of pods.
        idle: a round ends if no pod was bound for so many seconds.
    """

    def __init__(self, client: Client, workload: Workload, pods: int, idle: float) -> None:
        self._client = client
        self._workload = workload
        self._pods = pods
        self._idle = idle

    async def measure(
        self, profile: str, prefix: str, processes: Mapping[str, int], count_failures: Callable[[], int]
    ) -> Round:
        """Create claims and pods, wait until the pods are bound, and delete them.

        Args:
            profile: the name of the profile of kube-scheduler.
            prefix: the beginning of the names of the pods.
            processes: the process IDs of the scheduling processes, by name.
            count_failures: returns the number of calls of `bind` that failed.
        """
        client, names = self._client, [f"{prefix}-{number}" for number in range(self._pods)]
        specs = dict(zip(names, islice(self._workload.pods, self._pods), strict=False))

        async def claim(name: str) -> None:
            body = {"metadata": {"name": name}, "spec": specs[name]}
            await client.create(CLAIMS, body, NAMESPACE, into=bytes)

        async def create_pod(name: str) -> None:
            await client.create(PODS, pod(name, profile, name), NAMESPACE, into=bytes)

        await each(specs, claim)
        async with Cache(client, PODS, Pod, NAMESPACE) as seen:
            bound_at: dict[str, float] = {}

            def note(_kind: object, _old: Pod | None, new: Pod | None) -> None:
                if new is not None and new.spec.node_name:
                    bound_at.setdefault(new.metadata.name, time.monotonic())

            seen.subscribe(note)
            await seen.wait_synced()
            began, used = time.monotonic(), _cpu_seconds(processes)
            await each(specs, create_pod)
            while (
                len(bound_at) < len(specs)
                and time.monotonic() - max(bound_at.values(), default=began) < self._idle
            ):
                await asyncio.sleep(0.05)
            now = _cpu_seconds(processes)
        cpu = {name: 1000 * (now[name] - used[name]) / max(1, len(bound_at)) for name in processes}
        failures = await asyncio.to_thread(count_failures)
        await self._delete(list(specs))
        return Round(max(bound_at.values(), default=began) - began, len(bound_at), failures, cpu)

    async def _delete(self, names: Sequence[str]) -> None:
        client, unprotected = self._client, {"metadata": {"finalizers": None}}
        await each(names, lambda name: client.delete(PODS, name, NAMESPACE, grace_seconds=0))
        free = {"status": {"allocation": None, "reservedFor": None}}

        async def release(name: str) -> None:
            await client.patch(CLAIMS, name, NAMESPACE, free, PatchKind.MERGE, into=bytes, subresource="status")
            await client.patch(CLAIMS, name, NAMESPACE, unprotected, PatchKind.MERGE, into=bytes)
            await client.delete(CLAIMS, name, NAMESPACE)

        await each(names, release)


def count_failed_binds(metrics: str) -> int:
    """Return the number of calls of `bind` that an extender did not answer with success.

    Args:
        metrics: the metrics of the extender, which begin at zero in each round.
    """
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "dradriver_extender_requests_total"
        and sample.labels["verb"] == "bind"
        and sample.labels["outcome"] != "ok"
    )


def _read_failed_binds(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return count_failed_binds(answer.read().decode())


async def main() -> int:
    """Measure the rows, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extender.throughput", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"rows of the table: {', '.join(_ROWS)}")
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--order", choices=("ordered", "packed"), default="packed")
    parser.add_argument(
        "--idle", type=float, default=20.0, help="a round ends after so many seconds without a binding"
    )
    options = parser.parse_args()
    rows, port = [], reserve_port()
    metrics = (f"--metrics-port={port}", "--metrics-host=127.0.0.1")
    peers = (
        ("plugin", plugin, lambda: 0),
        ("extender", lambda bed, order: extender(bed, order, *metrics), partial(_read_failed_binds, port)),
    )
    for name in options.rows or _ROWS:
        workload = _ROWS[name]()
        rounds: dict[str, list[Round]] = {"plugin": [], "extender": []}
        async with control_plane_only(workload.gates) as (bed, client):
            await build(client, workload.nodes, workload.classes, workload.slices())
            measurement = Measurement(
                client, workload, min(options.pods, workload.stay or options.pods), options.idle
            )
            for number in range(options.rounds):
                for peer, run, count_failures in peers:
                    print(f"{name}: round {number + 1} of {options.rounds}, {peer}", file=sys.stderr)
                    with run(bed, options.order) as profile:
                        processes = {each: bed.pid(each) for each in _PROCESSES[peer]}
                        prefix = f"{peer}-{number}"
                        found = await measurement.measure(profile, prefix, processes, count_failures)
                    print(found, file=sys.stderr)
                    rounds[peer].append(found)
        rows.append(_row(name, rounds["plugin"], rounds["extender"]))
    print(markdown(_HEAD, rows))
    return 0


def _cpu_seconds(processes: Mapping[str, int]) -> Mapping[str, float]:
    return {name: cpu_seconds(pid) for name, pid in processes.items()}


def _row(name: str, theirs: Sequence[Round], ours: Sequence[Round]) -> list[str]:
    rates = [[each.bound / each.seconds for each in rounds] for rounds in (theirs, ours)]
    # The load of the machine changes between rounds, so only the two peers of a round are compared.
    ratio = median(our_rate / their_rate for their_rate, our_rate in zip(*rates, strict=True))
    bound = f"{median(each.bound for each in theirs):.0f} / {median(each.bound for each in ours):.0f}"
    failures = sum(each.failures for each in ours)
    cpu = " / ".join(
        f"{median(each.cpu[process] for each in rounds):.1f}"
        for rounds in (theirs, ours)
        for process in rounds[0].cpu
    )
    return [name, *(f"{median(each):.1f}" for each in rates), f"{ratio:.2f}", bound, str(failures), cpu]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
