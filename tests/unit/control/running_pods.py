"""Pods with priorities that run and hold devices, for tests of preemption."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Unschedulable
from dradriver.model.core.disruption_budget import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import LabelSelector, Pod
from dradriver.model.resource.claim import CLAIM_FINALIZER, DeviceResult, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.world import NOW, World

__all__ = ["budget", "leave", "pending", "run", "share", "victims", "with_priority"]


def with_priority(pod: Pod, priority: int | None, policy: str = "") -> Pod:
    """Return the pod with a priority, and a preemption policy."""
    return replace(pod, spec=replace(pod.spec, priority=priority, preemption_policy=policy))


def pending(
    world: World, *, priority: int | None = 10, count: int = 1, name: str = "high", policy: str = ""
) -> Pod:
    """Add a pod without a node, and its claim for `count` devices."""
    world.add(builders.claim(builders.device_request(count=count), name=name))
    pod = with_priority(builders.pod(name, name=name), priority, policy)
    world.add(pod)
    return pod


def run(
    world: World,
    name: str,
    *devices: DeviceResult | str,
    node: str = "node-1",
    priority: int | None = 0,
    started: int | None = 0,
    app: str = "",
) -> Pod:
    """Add a pod that runs on a node, and its claim with devices.

    Args:
        world: the cluster.
        name: the name of the pod and of its claim.
        devices: the devices of the claim. None: the pod has no claim.
        node: the node.
        priority: the pod's priority.
        started: when the pod was started, in seconds. None: it is not known.
        app: the value of the pod's label `app`.
    """
    pod = with_priority(builders.pod(*([name] if devices else ()), name=name), priority)
    start: datetime | None = None if started is None else NOW + timedelta(seconds=started)
    labels = {"app": app} if app else {}
    pod = replace(
        pod,
        metadata=replace(pod.metadata, labels=labels),
        spec=replace(pod.spec, node_name=node),
        status=replace(pod.status, start_time=start, phase="Running"),
    )
    world.add(pod)
    if devices:
        claim = builders.allocated(builders.claim(name=name), *devices, node_name=node)
        world.add(_reserve(claim, pod))
    return pod


def share(world: World, name: str, claim: str, *, node: str = "node-1", priority: int | None = 0) -> Pod:
    """Add a pod that runs on a node and uses an existing claim too."""
    pod = with_priority(builders.pod(claim, name=name), priority)
    pod = replace(pod, spec=replace(pod.spec, node_name=node))
    world.add(pod, _reserve(world.claims[f"default/{claim}"], pod))
    return pod


def _reserve(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    return replace(
        claim,
        metadata=replace(claim.metadata, finalizers=[CLAIM_FINALIZER]),
        status=replace(claim.status, reserved_for=[*claim.status.reserved_for, consumer_of(pod)]),
    )


def leave(world: World, name: str) -> None:
    """Begin to delete a pod; it still runs."""
    pod = world.pod(name)
    world.pods[pod.ref] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))


def budget(name: str, app: str, allowed: int, *disrupted: str) -> PodDisruptionBudget:
    """Return a budget for the pods of an app."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, NOW)
        ),
    )


def victims(world: World, pod: Pod) -> tuple[str, list[str]] | None:
    """Return the node and the names of the victims that the scheduler selects; None if it evicts no pod."""
    verdict = schedule(pod, world.snapshot(), preempts=True)
    assert isinstance(verdict, Unschedulable), verdict
    if verdict.preemption is None:
        return None
    return verdict.preemption.node, [victim.metadata.name for victim in verdict.preemption.victims]
