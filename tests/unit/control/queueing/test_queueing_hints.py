"""The changes that wake an unschedulable pod: the queueing hints of the plugin DynamicResources."""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import pytest
from msgspec.structs import replace

from dradriver.control.extended import new_special_claim
from dradriver.control.extended.requests import Requests
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.kube import Cache, Client, EventRecorder
from dradriver.kube.cache import T
from dradriver.model.classic.names import finalizer
from dradriver.model.classic.scheduling import (
    ClaimSchedulingStatus,
    PodSchedulingContext,
    SchedulingSpec,
    SchedulingStatus,
)
from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.core.workload import NodeSpec, NodeStatus, Pod, PodClaimStatus, PodCondition, PodStatus
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import CLAIM_FINALIZER, ConsumerReference, ResourceClaim
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
    """The caches of a scheduler without an API server."""

    def __init__(self) -> None:
        client = cast(Client, None)
        self.caches = Caches(client)
        executor = Executor(client, self.caches, EventRecorder(client, "test"))
        self.scheduler = Scheduler(self.caches, executor)
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
        """Add or update an object, as a watch does."""
        meta = replace(item.metadata, resource_version=str(next(self._versions)))
        cache.apply_written(replace(item, metadata=meta))  # type: ignore[type-var]

    @property
    def is_awake(self) -> bool:
        queue = self.scheduler._loop.queue
        return WAITING.ref in queue._queued or WAITING.ref in queue._timers

    def make_unschedulable(self) -> None:
        """Record that no node suits the pod."""
        queue = self.scheduler._loop.queue
        queue._queued.clear()
        queue.close()
        self.scheduler._unschedulable.add(WAITING.ref, WAITING.priority)


def allocated(claim: ResourceClaim) -> ResourceClaim:
    return builders.allocated(claim, "device-0")


def reserved(*users: ConsumerReference) -> ResourceClaim:
    held = allocated(OTHER)
    return replace(held, status=replace(held.status, reserved_for=list(users)))


Step: TypeAlias = Callable[[Cluster], None]


def updated(cache: str, item: object) -> Step:
    """An object was added or updated."""
    return lambda c: c.show(getattr(c.caches, cache), cast(Pod, item))


def deleted(cache: str, item: object) -> Step:
    """An object was deleted."""
    return lambda c: cast(Cache[Pod], getattr(c.caches, cache)).apply_deleted(cast(Pod, item))


def changed_node(**status: object) -> Step:
    return updated("nodes", replace(NODE, status=NodeStatus(**status)))  # type: ignore[arg-type]


def changed_pod(**status: object) -> Step:
    return updated("pods", replace(WAITING, status=replace(WAITING.status, **status)))


READY = Condition(type="Ready", status="True", message="again")
PROTECTED = replace(OTHER, metadata=replace(OTHER.metadata, finalizers=[CLAIM_FINALIZER]))
STATUS = DeviceTaintRuleStatus(conditions=[Condition(type="EvictionInProgress", status="False")])
PLAIN = builders.pod(name="plain", node_name="node-1")
RUNS = replace(extended_pod("runs", gpu=1), spec=replace(extended_pod(gpu=1).spec, node_name="node-1"))
SPECIAL = new_special_claim(WAITING, Requests((builders.device_request(),)), ())
NOMINATED = replace(builders.pod(name="plain"), status=PodStatus(nominated_node_name="node-1"))
USERS = [ConsumerReference(resource="pods", name=name, uid=name) for name in ("pod-a", "pod-b")]
NAMED = PodClaimStatus(name="template-0", resource_claim_name="made")
CONTEXT = PodSchedulingContext(metadata=ObjectMeta(name="pod-1", namespace="default", uid="context"))
ANSWER = ClaimSchedulingStatus(name="claim-0", controller_name="a.example.com", unsuitable_nodes=["node-1"])
ANSWERED = replace(CONTEXT, status=SchedulingStatus(resource_claims=[ANSWER]))
OTHER_CONTEXT = replace(ANSWERED, metadata=ObjectMeta(name="other", namespace="default", uid="other"))
CLASSIC = replace(OTHER, metadata=replace(OTHER.metadata, finalizers=[finalizer("a.example.com")]))

WAKES: dict[str, tuple[Step, ...]] = {
    "Node added": (updated("nodes", builders.node("node-2")),),
    "Node label updated": (updated("nodes", builders.node(zone="a")),),
    "Node taint updated": (updated("nodes", replace(NODE, spec=NodeSpec(unschedulable=True))),),
    "Node allocatable updated": (changed_node(allocatable={"example.com/gpu": Quantity(1)}),),
    "Node declared feature updated": (changed_node(declared_features=["DRAConsumableCapacity"]),),
    "Node readiness updated": (changed_node(conditions=[Condition(type="Ready", status="False")]),),
    "assigned pod with extended resources deleted": (updated("pods", RUNS), deleted("pods", RUNS)),
    "special ResourceClaim updated": (
        updated("claims", SPECIAL),
        updated("claims", allocated(SPECIAL)),
    ),
    "ResourceClaim of the pod created": (deleted("claims", OWN), updated("claims", OWN)),
    "ResourceClaim of the pod allocated": (updated("claims", allocated(OWN)),),
    "another ResourceClaim deallocated": (updated("claims", allocated(OTHER)), updated("claims", OTHER)),
    "another ResourceClaim deleted with its allocation": (
        updated("claims", allocated(OTHER)),
        deleted("claims", OTHER),
    ),
    "another ResourceClaim lost one of its users": (
        updated("claims", reserved(*USERS)),
        updated("claims", reserved(*USERS[:1])),
    ),
    "nominated pod deleted": (updated("pods", NOMINATED), deleted("pods", NOMINATED)),
    "nomination of another pod cleared": (
        updated("pods", NOMINATED),
        updated("pods", replace(NOMINATED, status=PodStatus())),
    ),
    "generated ResourceClaim named in the pod": (changed_pod(resource_claim_statuses=[NAMED]),),
    "DeviceClass added": (updated("classes", builders.device_class("new.example.com")),),
    "DeviceClass updated": (updated("classes", builders.device_class(CLASS.metadata.name, "true")),),
    "ResourceSlice added": (updated("slices", builders.slice_(node_name="node-2")),),
    "ResourceSlice updated": (updated("slices", builders.slice_(builders.device("new"))),),
    "DeviceTaintRule deleted": (deleted("rules", RULE),),
    "PodSchedulingContext of the pod answered": (updated("contexts", CONTEXT), updated("contexts", ANSWERED)),
    "PodSchedulingContext of the pod deleted": (updated("contexts", CONTEXT), deleted("contexts", CONTEXT)),
    "DeviceClass of a controller added": (updated("classes", builders.controller_class()),),
}

WAKES_NOT: dict[str, tuple[Step, ...]] = {
    "Node heartbeat": (changed_node(conditions=[READY]),),
    "Node allocatable of CPUs updated": (changed_node(allocatable={"cpu": Quantity(1)}),),
    "assigned pod without extended resources deleted": (updated("pods", PLAIN), deleted("pods", PLAIN)),
    "another ResourceClaim created": (updated("claims", OTHER),),
    "another ResourceClaim allocated": (updated("claims", allocated(OTHER)),),
    "another ResourceClaim deleted without allocation": (updated("claims", OTHER), deleted("claims", OTHER)),
    "another ResourceClaim got a user": (
        updated("claims", reserved(*USERS[:1])),
        updated("claims", reserved(*USERS)),
    ),
    "nominated pod changed": (
        updated("pods", NOMINATED),
        updated("pods", replace(NOMINATED, metadata=replace(NOMINATED.metadata, labels={"a": "b"}))),
    ),
    "another ResourceClaim protected": (updated("claims", PROTECTED),),
    "PodScheduled condition of the pod": (
        changed_pod(conditions=[PodCondition(type="PodScheduled", status="False")]),
    ),
    "another pod added": (updated("pods", builders.pod(name="pod-2")),),
    "DeviceTaintRule's status": (updated("rules", replace(RULE, status=STATUS)),),
    "PodSchedulingContext of the pod created": (updated("contexts", CONTEXT),),
    "PodSchedulingContext's spec, which the scheduler writes": (
        updated("contexts", ANSWERED),
        updated("contexts", replace(ANSWERED, spec=SchedulingSpec(selected_node="node-1"))),
    ),
    "PodSchedulingContext of another pod answered": (updated("contexts", OTHER_CONTEXT),),
    "another ResourceClaim deallocated by its controller": (
        updated("claims", allocated(CLASSIC)),
        updated("claims", CLASSIC),
    ),
}


def wakes(steps: tuple[Step, ...]) -> bool:
    """Return whether the last step wakes the pod."""
    cluster = Cluster()
    for step in steps[:-1]:
        step(cluster)
    cluster.make_unschedulable()
    steps[-1](cluster)
    awake = cluster.is_awake
    cluster.make_unschedulable()
    return awake


@pytest.mark.parametrize("event", WAKES)
async def test_the_pod_is_woken_by(event: str) -> None:
    assert wakes(WAKES[event])


@pytest.mark.parametrize("event", WAKES_NOT)
async def test_the_pod_is_not_woken_by(event: str) -> None:
    assert not wakes(WAKES_NOT[event])
