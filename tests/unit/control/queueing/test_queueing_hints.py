"""The events that make a waiting pod worth another try: those of kube-scheduler's plugin DynamicResources.

In Kubernetes' words: `EventsToRegister` and its queueing hints.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import pytest
from msgspec.structs import replace

from dradriver.control.extended import special_for
from dradriver.control.extended.requests import Requests
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.kube import Cache, Client, EventRecorder
from dradriver.kube.cache import T
from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.core.workload import NodeSpec, NodeStatus, Pod, PodClaimStatus, PodCondition
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim
from dradriver.model.resource.device import Taint
from dradriver.model.resource.taint_rule import (
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintRuleStatus,
    DeviceTaintSelector,
)
from dradriver.testing import builders
from tests.unit.control.extended_pods import pod as extended_pod

WAITING = builders.pod("claim-1", templates=["template"])
OWN = builders.claim()
OTHER = builders.claim(name="other")
NODE = builders.node()
SLICE = builders.slice_(builders.device())
CLASS = builders.device_class()
RULE = DeviceTaintRule(
    metadata=ObjectMeta(name="rule", uid="rule"),
    spec=DeviceTaintRuleSpec(
        taint=Taint(key="example.com/broken", effect="NoSchedule"), device_selector=DeviceTaintSelector()
    ),
)


class Cluster:
    """The scheduler's view of a cluster without a server: what the watches would show."""

    def __init__(self) -> None:
        client = cast(Client, None)
        self.caches = Caches(client)
        executor = Executor(client, self.caches, EventRecorder(client, "test"))
        self.scheduler = Scheduler(self.caches, PoolIndex(self.caches), executor)
        self._versions: Iterator[int] = itertools.count(1)
        for cache, item in (
            (self.caches.pods, WAITING),
            (self.caches.claims, OWN),
            (self.caches.nodes, NODE),
            (self.caches.slices, SLICE),
            (self.caches.classes, CLASS),
            (self.caches.rules, RULE),
        ):
            self.show(cast(Cache[Pod], cache), cast(Pod, item))

    def show(self, cache: Cache[T], item: T) -> None:
        """The object is there, or has changed."""
        meta = replace(item.metadata, resource_version=str(next(self._versions)))
        cache.apply_written(replace(item, metadata=meta))  # type: ignore[type-var]

    @property
    def awake(self) -> bool:
        queue = self.scheduler._loop.queue
        return WAITING.ref in queue._queued or WAITING.ref in queue._timers

    def fall_asleep(self) -> None:
        """The pod was tried, and nothing was found."""
        queue = self.scheduler._loop.queue
        queue._queued.clear()
        queue.close()
        self.scheduler._waiting.add(WAITING.ref)


def allocated(claim: ResourceClaim) -> ResourceClaim:
    return builders.allocated(claim, "device-0")


Step: TypeAlias = Callable[[Cluster], None]


def shown(cache: str, item: object) -> Step:
    """An object is there, or has changed."""
    return lambda c: c.show(getattr(c.caches, cache), cast(Pod, item))


def gone(cache: str, item: object) -> Step:
    """An object was deleted."""
    return lambda c: cast(Cache[Pod], getattr(c.caches, cache)).apply_deleted(cast(Pod, item))


def changed_node(**status: object) -> Step:
    return shown("nodes", replace(NODE, status=NodeStatus(**status)))  # type: ignore[arg-type]


def changed_pod(**status: object) -> Step:
    return shown("pods", replace(WAITING, status=replace(WAITING.status, **status)))


READY = Condition(type="Ready", status="True", message="again")
PROTECTED = replace(OTHER, metadata=replace(OTHER.metadata, finalizers=[CLAIM_FINALIZER]))
SAID = DeviceTaintRuleStatus(conditions=[Condition(type="EvictionInProgress", status="False")])
PLAIN = builders.pod(name="plain", node_name="node-1")
RUNS = replace(extended_pod("runs", gpu=1), spec=replace(extended_pod(gpu=1).spec, node_name="node-1"))
SPECIAL = special_for(WAITING, Requests((builders.device_request(),)), ())
NAMED = PodClaimStatus(name="template-0", resource_claim_name="made")

WAKES: dict[str, tuple[Step, ...]] = {
    "Node added": (shown("nodes", builders.node("node-2")),),
    "Node label updated": (shown("nodes", builders.node(zone="a")),),
    "Node taint updated": (shown("nodes", replace(NODE, spec=NodeSpec(unschedulable=True))),),
    "Node allocatable updated": (changed_node(allocatable={"example.com/gpu": Quantity(1)}),),
    "Node declared feature updated": (changed_node(declared_features=["DRAConsumableCapacity"]),),
    "Node readiness updated": (changed_node(conditions=[Condition(type="Ready", status="False")]),),
    "assigned pod with extended resources deleted": (shown("pods", RUNS), gone("pods", RUNS)),
    "special ResourceClaim of the pod updated": (shown("claims", SPECIAL), shown("claims", allocated(SPECIAL))),
    "ResourceClaim of the pod created": (gone("claims", OWN), shown("claims", OWN)),
    "ResourceClaim of the pod allocated": (shown("claims", allocated(OWN)),),
    "another ResourceClaim deallocated": (shown("claims", allocated(OTHER)), shown("claims", OTHER)),
    "another ResourceClaim deleted with its allocation": (
        shown("claims", allocated(OTHER)),
        gone("claims", OTHER),
    ),
    "generated ResourceClaim named in the pod": (changed_pod(resource_claim_statuses=[NAMED]),),
    "DeviceClass added": (shown("classes", builders.device_class("new.example.com")),),
    "DeviceClass updated": (shown("classes", builders.device_class(CLASS.metadata.name, "true")),),
    "ResourceSlice added": (shown("slices", builders.slice_(node_name="node-2")),),
    "ResourceSlice updated": (shown("slices", builders.slice_(builders.device("new"))),),
    "DeviceTaintRule deleted": (gone("rules", RULE),),
}

WAKES_NOT: dict[str, tuple[Step, ...]] = {
    "Node heartbeat": (changed_node(conditions=[READY]),),
    "Node allocatable of CPUs updated": (changed_node(allocatable={"cpu": Quantity(1)}),),
    "assigned pod without extended resources deleted": (shown("pods", PLAIN), gone("pods", PLAIN)),
    "another ResourceClaim created": (shown("claims", OTHER),),
    "another ResourceClaim allocated": (shown("claims", allocated(OTHER)),),
    "another ResourceClaim deleted without allocation": (shown("claims", OTHER), gone("claims", OTHER)),
    "another ResourceClaim protected": (shown("claims", PROTECTED),),
    "what the scheduler itself says of the pod": (
        changed_pod(conditions=[PodCondition(type="PodScheduled", status="False")]),
    ),
    "another pod added": (shown("pods", builders.pod(name="pod-2")),),
    "DeviceTaintRule's status": (shown("rules", replace(RULE, status=SAID)),),
}


def awake_after(steps: tuple[Step, ...]) -> bool:
    """Whether the last step makes the pod worth a try."""
    cluster = Cluster()
    for step in steps[:-1]:
        step(cluster)
    cluster.fall_asleep()
    steps[-1](cluster)
    awake = cluster.awake
    cluster.fall_asleep()
    return awake


@pytest.mark.parametrize("event", WAKES)
async def test_it_is_tried_again_after(event: str) -> None:
    assert awake_after(WAKES[event])


@pytest.mark.parametrize("event", WAKES_NOT)
async def test_it_is_left_alone_after(event: str) -> None:
    assert not awake_after(WAKES_NOT[event])
