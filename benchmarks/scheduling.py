"""`python -m benchmarks.scheduling`: the embedded scheduler alone, in a large cluster.

All writes are carried out in memory, in the same process, so the figures are those of the scheduler: its queue,
its decisions, its plans and the events that it receives. `python -m benchmarks.embedded` adds the API server.
"""

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from benchmarks.report import markdown
from benchmarks.waiting import FABRIC, fabric
from dradriver.control.runtime import actions
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.kube import Client
from dradriver.model.core.workload import Node, Pod, PodCondition
from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders

_DEVICES_OF_NODE: Final = 8
_HEAD: Final = ("scenario", "pods", "seconds", "CPU s", "CPU ms a pod", "pods a CPU second")


class Cluster:
    """A scheduler, and caches that contain each write at once."""

    def __init__(self) -> None:
        self.caches = Caches(cast(Client, None))
        self.scheduler = Scheduler(self.caches, cast(Executor, self))
        self._versions = itertools.count(1)
        self._changed = asyncio.Event()
        self.bound = self.refused = self.nominated = 0

    def add(self, *objects: Pod | ResourceClaim | Node | ResourceSlice | DeviceClass) -> None:
        """Create objects, or replace those of the same name."""
        caches = {
            "Pod": self.caches.pods,
            "ResourceClaim": self.caches.claims,
            "Node": self.caches.nodes,
            "ResourceSlice": self.caches.slices,
            "DeviceClass": self.caches.classes,
        }
        for each in objects:
            meta = replace(each.metadata, resource_version=str(next(self._versions)))
            cache: Any = caches[type(each).__name__]
            cache.apply_written(replace(each, metadata=meta))

    async def execute(self, action: actions.Action) -> bool:
        """Carry out a write, as `control.runtime.executor` and an API server do."""
        match action:
            case actions.AddFinalizer(claim):
                self.add(replace(claim, metadata=replace(claim.metadata, finalizers=[CLAIM_FINALIZER])))
            case actions.Allocate(claim, allocation, consumer):
                status = replace(claim.status, allocation=allocation, reserved_for=[consumer])
                self.add(replace(claim, status=status))
            case actions.Nominate(pod, node):
                self.add(replace(pod, status=replace(pod.status, nominated_node_name=node)))
                self.nominated += 1
            case actions.Bind(pod, node):
                self.add(replace(pod, spec=replace(pod.spec, node_name=node)))
                self.bound += 1
            case actions.ReportUnschedulable(pod, reason, message):
                condition = PodCondition(type="PodScheduled", status="False", reason=reason, message=message)
                self.add(replace(pod, status=replace(pod.status, conditions=[condition])))
                self.refused += 1
            case actions.LookUpPlan() | actions.EmitEvent():
                pass
            case _:
                raise AssertionError(action)
        self._changed.set()
        await asyncio.sleep(0)
        return True

    async def until(self, done: Callable[[], bool]) -> None:
        """Return when `done` returns True."""
        while not done():
            self._changed.clear()
            await self._changed.wait()


def shared_pool(devices: int) -> Sequence[ResourceSlice]:
    """Return a pool of devices that every node reaches, without binding conditions."""
    return [
        replace(
            source,
            spec=replace(
                source.spec,
                devices=[
                    replace(each, binds_to_node=None, binding_conditions=[], binding_failure_conditions=[])
                    for each in source.spec.devices
                ],
            ),
        )
        for source in fabric(devices)
    ]


def pods_with_claims(count: int, class_name: str) -> list[Pod | ResourceClaim]:
    """Return pods that request one device each, with their claims."""
    names = [f"pod-{number}" for number in range(count)]
    claims = [builders.claim(builders.device_request(class_name), name=name) for name in names]
    return [*claims, *(builders.pod(name, name=name) for name in names)]


async def measure(
    title: str, cluster: Cluster, pods: int, begin: Callable[[], None], done: Callable[[], bool]
) -> Sequence[str]:
    """Return a row: the time from `begin` until `done` returns True."""
    began, used = time.monotonic(), time.process_time()
    begin()
    await cluster.until(done)
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    figures = (seconds, cpu, 1000 * cpu / pods, pods / cpu)
    print(f"{title}: {cpu:.3g} s of CPU", file=sys.stderr)
    return title, str(pods), *(f"{figure:.3g}" for figure in figures)


async def waiting_for_a_pool(nodes: int, pods: int) -> list[Sequence[str]]:
    """Let pods wait for a pool that all nodes reach, publish the pool, and then free one device."""
    cluster = Cluster()
    cluster.add(*(builders.node(f"node-{number}") for number in range(nodes)), builders.device_class(FABRIC))
    async with cluster.scheduler:
        refused = await measure(
            f"pods without a device, {nodes} nodes",
            cluster,
            pods,
            lambda: cluster.add(*pods_with_claims(pods, FABRIC)),
            lambda: cluster.refused == pods,
        )
        bound = await measure(
            f"the same pods, once a pool of {pods} devices is published",
            cluster,
            pods,
            lambda: cluster.add(*shared_pool(pods)),
            lambda: cluster.bound == pods,
        )
    return [refused, bound]


async def full_nodes(nodes: int, pods: int) -> list[Sequence[str]]:
    """Bind pods to nodes with devices of their own."""
    cluster = Cluster()
    for number in range(nodes):
        devices = [builders.device(f"device-{each}") for each in range(_DEVICES_OF_NODE)]
        name = f"node-{number}"
        cluster.add(builders.node(name), builders.slice_(*devices, node_name=name))
    cluster.add(builders.device_class())
    async with cluster.scheduler:
        row = await measure(
            f"pods on {nodes} nodes with {_DEVICES_OF_NODE} devices each",
            cluster,
            pods,
            lambda: cluster.add(*pods_with_claims(pods, builders.CLASS)),
            lambda: cluster.bound == pods,
        )
    return [row]


async def conditions(nodes: int, pods: int) -> list[Sequence[str]]:
    """Let pods wait for binding conditions of a fabric's devices, beside nodes with other devices."""
    cluster = Cluster()
    for number in range(nodes):
        name = f"node-{number}"
        local = builders.slice_(builders.device("a"), builders.device("b"), node_name=name)
        cluster.add(builders.node(name), local)
    cluster.add(builders.device_class(FABRIC), *fabric(pods))
    async with cluster.scheduler:
        row = await measure(
            f"pods that wait for binding conditions of a fabric with {pods} devices, {nodes} nodes",
            cluster,
            pods,
            lambda: cluster.add(*pods_with_claims(pods, FABRIC)),
            lambda: cluster.nominated == pods,
        )
    return [row]


async def main() -> int:
    """Run the scenarios, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    options = parser.parse_args()
    rows = [
        *await full_nodes(options.nodes, options.pods),
        *await waiting_for_a_pool(options.nodes, options.pods),
        *await conditions(options.nodes, options.pods),
    ]
    print(markdown(_HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
