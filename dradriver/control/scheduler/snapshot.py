"""The input and the result of a scheduling decision."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dradriver.allocator import MAX_STEPS, ORDERED, Features, InUse, Inventory, Order
from dradriver.control.extended import ClassesByResource, ScoringStrategy, Special
from dradriver.control.pools.ready_pools import ReadyPools
from dradriver.control.runtime.actions import DeleteClaim, Release, RemoveFinalizer
from dradriver.control.scheduler.binding_conditions import BindingDeadline
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["UNDECIDED", "Plan", "Snapshot", "Unschedulable"]


UNDECIDED: Final = "AllocationUndecided"
"""The reason of a pod's condition when the allocator gave up on a node where the pod may still fit."""


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment, with its assumed allocations.

    Attributes:
        nodes: all nodes.
        claims: by `namespace/name`.
        classes: device classes by name.
        inventory: all pools.
        in_use: the devices of allocated claims, and of those that plans in flight will allocate.
        in_flight: UIDs of claims that a plan in flight will allocate.
        pods_on: number of pods on each node that may run, plans in flight included.
        pods: these pods themselves, by node; none where no pod has anti-affinity.
        features: the features that the allocator may use.
        max_steps: number of tried devices after which the allocator gives up.
        order: the order in which it prefers devices of a node.
        now: the timestamp of new allocations.
        patience: how long binding conditions are waited for.
        ready: the nodes that have devices that are ready at once.
        classes_by_resource: the device classes by the extended resources that they serve; empty where
            DRAExtendedResource is off.
        taken: by node how much of each extended resource its pods take, plans in flight included.
        special: special claims that earlier attempts left for the pod that is being scheduled.
        scoring: the scores of nodes.
    """

    nodes: Sequence[Node]
    claims: Mapping[str, ResourceClaim]
    classes: Mapping[str, DeviceClass]
    inventory: Inventory
    in_use: InUse = field(default_factory=InUse)
    in_flight: Collection[str] = ()
    pods_on: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    max_steps: int = MAX_STEPS
    order: Order = ORDERED
    now: datetime | None = None
    patience: BindingDeadline = field(default_factory=BindingDeadline)
    ready: ReadyPools = field(default_factory=ReadyPools)
    classes_by_resource: ClassesByResource = field(default_factory=ClassesByResource)
    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    special: Sequence[ResourceClaim] = ()
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of scheduling: a node and devices for a pod, until they are written.

    Attributes:
        pod_uid: the pod of the plan.
        node: the node's name.
        claims: `namespace/name` and UID of the pod's claims, in its order.
        allocations: by UID, those that are still to be written.
        special: the claim for its extended resources, if devices serve any. It contains its allocation until it
            is created; then it is one of `claims` too.
    """

    pod_uid: str
    node: str
    claims: tuple[tuple[str, str], ...] = ()
    allocations: Mapping[str, Allocation] = field(default_factory=dict)
    special: Special | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Why a pod has no node.

    Attributes:
        message: for people, in kube-scheduler's words.
        reason: of the pod's condition.
        releases: writes to carry out first. They free allocations that no other pod uses and that keep the pod
            off a node, reservations for the pod while it waits, and special claims that it can't use.
        quiet: whether the user needs no report, because another controller is at work.
    """

    message: str
    reason: str = "Unschedulable"
    releases: tuple[Release | RemoveFinalizer | DeleteClaim, ...] = ()
    quiet: bool = False


def holds(pod: Pod) -> bool:
    """Return whether the pod counts against its node."""
    return bool(pod.spec.node_name) and not pod.finished
