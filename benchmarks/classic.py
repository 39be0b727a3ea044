"""`python -m benchmarks.classic`: pods with claims of two controllers that disagree (KEP-3063).

Each controller refuses half of the nodes, at random, and has few slots on the others. Each pod has one claim of
each controller. The scheduler is the embedded one with the API server in one process, or with
`--kube-scheduler` a real kube-scheduler with the extender, kube-apiserver and etcd; then also the controllers
run in this process.

A round is a version of a pod's `PodSchedulingContext` that the scheduler wrote. The exit code is 1 if the
median of the rounds is above 3, or if a pod is not bound within 60 s, or 300 s behind kube-scheduler.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from msgspec.structs import replace

from benchmarks.allocator.workloads.stream import named_nodes
from benchmarks.extender.cluster import NAMESPACE, build, control_plane_only, extender
from benchmarks.report import markdown, percentile
from benchmarks.waiting import each
from dradriver.classic.controller import ClassicController
from dradriver.classic.metrics import ControllerMetrics
from dradriver.classic.reports import ControllerReports
from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.driver import (
    AllocationError,
    ControllerAllocationResult,
    ControllerDevice,
    ControllerDriver,
    PendingClaim,
    PendingPod,
    RecordedClaim,
)
from dradriver.kube import CLAIMS, PODS, SCHEDULING_CONTEXTS, Cache, Client, EventRecorder
from dradriver.kube.definitions import install_definitions
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.node.driver_calls import Calls
from dradriver.testing import builders

_CONTROLLERS: Final = ("one.example.com", "two.example.com")
_PROGRESS: Final = 25
_SPARE: Final = 1.25
"""The slots on nodes that no controller refuses, as a multiple of the pods."""
_MOST_ROUNDS: Final = 3
_EMBEDDED_SECONDS: Final = 60.0
_KUBE_SCHEDULER_SECONDS: Final = 300.0


class RefusingDriver(ControllerDriver):
    """Has slots on some nodes, and refuses the others. Its hardware is this object."""

    slots: Mapping[str, int]

    def __init__(self) -> None:
        self._held: dict[str, str] = {}

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str | None
    ) -> Mapping[str, ControllerAllocationResult | AllocationError]:
        """Give a slot of the node to each claim."""
        found: dict[str, ControllerAllocationResult | AllocationError] = {}
        for claim in claims:
            if node is None or (self._held.get(claim.uid) != node and self._free(node) < 1):
                found[claim.uid] = AllocationError(f"node {node} has no free slot")
                continue
            self._held[claim.uid] = node
            devices = [ControllerDevice(each.name, self.name, self.name, claim.uid) for each in claim.requests]
            found[claim.uid] = ControllerAllocationResult(devices)
        return found

    async def deallocate(self, claim: RecordedClaim) -> None:
        """Take the slot from a claim."""
        self._held.pop(claim.uid, None)

    async def unsuitable_nodes(
        self,
        pod: PendingPod,  # noqa: ARG002
        claims: Sequence[PendingClaim],
        nodes: Sequence[str],
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes without a free slot."""
        used = Counter(self._held.values())
        unsuitable = [node for node in nodes if self.slots.get(node, 0) - used[node] < len(claims)]
        return {claim.uid: unsuitable for claim in claims}

    def _free(self, node: str) -> int:
        return self.slots.get(node, 0) - sum(each == node for each in self._held.values())


def disagreeing(nodes: Sequence[str], pods: int) -> list[RefusingDriver]:
    """Return the drivers, with enough slots on the nodes that neither refuses."""
    chance = random.Random(1)
    accepted = [set(chance.sample(nodes, len(nodes) // 2)) for _ in _CONTROLLERS]
    common = set.intersection(*accepted)
    slots = max(1, -(-round(pods * _SPARE) // len(common)))
    drivers = []
    for name, own in zip(_CONTROLLERS, accepted, strict=True):
        kind = type("Refusing", (RefusingDriver,), {"name": name, "slots": dict.fromkeys(own, slots)})
        drivers.append(kind())
    return drivers


@dataclass(frozen=True)
class Outcome:
    """What was measured with one scheduler.

    Attributes:
        title: the scheduler.
        pods: the number of pods.
        bound: the number of pods that were bound in time.
        seconds: the time until the last of them was bound.
        counts: the rounds of each pod.
    """

    title: str
    pods: int
    bound: int
    seconds: float
    counts: Sequence[int]

    @property
    def row(self) -> Sequence[str]:
        """Return the row of the table."""
        return [
            *(self.title, str(self.pods), f"{self.seconds:.1f}"),
            *(f"{median(self.counts):g}", f"{percentile(self.counts, 99):g}"),
        ]

    @property
    def problem(self) -> str:
        """Return why the outcome is not acceptable; empty if it is."""
        if self.bound < self.pods:
            return f"{self.title}: {self.pods - self.bound} of {self.pods} pods were not bound in time"
        if median(self.counts) > _MOST_ROUNDS:
            rule = f"must be at most {_MOST_ROUNDS}"
            return f"{self.title}: the median of the rounds is {median(self.counts):g}, {rule}"
        return ""


class Rounds:
    """Counts the rounds of each pod, and notes when it was bound."""

    def __init__(self, pods: Cache[Pod], contexts: Cache[PodSchedulingContext]) -> None:
        self.counts: dict[str, int] = {}
        self.bound: dict[str, float] = {}
        self.changed = asyncio.Event()
        contexts.subscribe(self._count)
        pods.subscribe(self._note)

    def _count(self, _kind: object, _old: object, new: PodSchedulingContext | None) -> None:
        if new is not None:
            self.counts[new.ref] = max(self.counts.get(new.ref, 0), new.metadata.generation)

    def _note(self, _kind: object, _old: object, new: Pod | None) -> None:
        if new is not None and new.spec.node_name:
            self.bound.setdefault(new.ref, time.monotonic())
            self.changed.set()


@asynccontextmanager
async def controllers(client: Client, drivers: Sequence[RefusingDriver]) -> AsyncIterator[None]:
    """Run the drivers."""
    async with AsyncExitStack() as stack:
        tasks = []
        for driver in drivers:
            recorder = await stack.enter_async_context(EventRecorder(client, driver.name))
            reports = ControllerReports(recorder, ControllerMetrics(driver.name))
            work = ClassicController(driver, client, lease="", calls=Calls(driver), reports=reports)
            tasks.append(asyncio.create_task(work.run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def measure(
    title: str, client: Client, nodes: int, pods: int, profile: str, seconds: float | None
) -> Outcome:
    """Return the outcome of one scheduler, after `seconds` also if pods are not bound."""
    made = named_nodes(nodes)
    names = [node.name for node in made]
    classes = [builders.controller_class(name, controller=name) for name in _CONTROLLERS]
    await build(client, made, classes, ())

    async def make(name: str) -> None:
        claims = [f"{name}-{number}" for number in range(len(_CONTROLLERS))]
        for claim, controller in zip(claims, _CONTROLLERS, strict=True):
            body = builders.claim(builders.device_request(controller), name=claim, namespace=NAMESPACE)
            await client.create(CLAIMS, body, NAMESPACE, into=bytes)
        pod = builders.pod(*claims, name=name, namespace=NAMESPACE)
        spec = replace(pod.spec, scheduler_name=profile or pod.spec.scheduler_name)
        await client.create(PODS, replace(pod, spec=spec), NAMESPACE, into=bytes)

    seen_pods = Cache(client, PODS, Pod, NAMESPACE)
    contexts = Cache(client, SCHEDULING_CONTEXTS, PodSchedulingContext, NAMESPACE)
    rounds = Rounds(seen_pods, contexts)
    async with controllers(client, disagreeing(names, pods)), seen_pods, contexts:
        await seen_pods.wait_synced()
        await contexts.wait_synced()
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await each([f"pod-{number}" for number in range(pods)], make)
                while len(rounds.bound) < pods:
                    rounds.changed.clear()
                    await rounds.changed.wait()
                    if len(rounds.bound) % _PROGRESS == 0:
                        print(f"{title}: {len(rounds.bound)} of {pods} pods are bound", file=sys.stderr)
    last = max(rounds.bound.values(), default=began)
    return Outcome(title, pods, len(rounds.bound), last - began, list(rounds.counts.values()) or [0])


async def embedded(nodes: int, pods: int, seconds: float | None = None) -> Outcome:
    """Measure the embedded scheduler; None as `seconds`: without a time limit."""
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as directory:
        server = ApiServer(Path(directory) / "server")
        await server.start()
        kubeconfig = Path(directory) / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        try:
            async with await Client.connect(str(kubeconfig)) as client:
                await install_definitions(client)
                async with Controllers(client):
                    return await measure("embedded", client, nodes, pods, "", seconds)
        finally:
            await server.stop()


async def behind_kube_scheduler(nodes: int, pods: int) -> Outcome:
    """Measure kube-scheduler with the extender."""
    async with control_plane_only({}) as (bed, client):
        await install_definitions(client)
        with extender(bed, "ordered") as profile:
            title = "kube-scheduler with the extender"
            return await measure(title, client, nodes, pods, profile, _KUBE_SCHEDULER_SECONDS)


async def main() -> int:
    """Measure, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classic", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--kube-scheduler", action="store_true", help="also measure a real kube-scheduler")
    options = parser.parse_args()
    outcomes = [await embedded(options.nodes, options.pods, _EMBEDDED_SECONDS)]
    if options.kube_scheduler:
        outcomes.append(await behind_kube_scheduler(options.nodes, options.pods))
    titles = ["scheduler", "pods", "seconds until all are bound", "rounds, median", "rounds, p99"]
    print(markdown(titles, [outcome.row for outcome in outcomes]))
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
