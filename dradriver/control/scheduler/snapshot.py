"""What a scheduling decision looks at: the cluster at one moment, with what is already promised to pods."""

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
"""The reason of a pod's condition when the allocator gave up on a node: it may fit all the same."""


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment.

    Attributes:
        nodes: all nodes.
        claims: by `namespace/name`.
        classes: device classes by name.
        inventory: all pools.
        in_use: the devices of allocated claims, and of those that plans in flight will allocate.
        in_flight: UIDs of claims that a plan in flight will allocate.
        pods_on: how many pods that may run each node has, plans in flight included.
        pods: these pods themselves, by node; none where no pod has anti-affinity.
        features: what the allocator may use.
        max_steps: after how many tries of a device it gives up.
        order: which devices of a node it prefers.
        now: the timestamp of new allocations.
        patience: how long binding conditions are waited for.
        ready: which nodes have devices that are ready at once.
        classes_by_resource: the device classes by the extended resources that they serve; empty where
            DRAExtendedResource is off.
        taken: by node how much of each extended resource its pods take, plans in flight included.
        special: special claims that were left by earlier attempts for the pod that is being scheduled.
        scoring: which nodes are better.
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
    """Where a pod goes and with which devices: the outcome of scheduling, until it is written.

    Attributes:
        pod_uid: the pod that it was made for.
        node: the node's name.
        claims: `namespace/name` and UID of the pod's claims, in its order.
        allocations: by UID, those that are still to be written.
        special: the claim for its extended resources, if devices serve any. It has its allocation with it until
            it is created; then it is one of `claims` too.
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
        message: for people, as kube-scheduler words it.
        reason: of the pod's condition.
        releases: what had better be taken back first: allocations that no other pod uses and that keep the
            pod off a node; what is reserved for it while it waits; special claims that are no use.
        quiet: whether this is no news for a user: another controller is at work.
    """

    message: str
    reason: str = "Unschedulable"
    releases: tuple[Release | RemoveFinalizer | DeleteClaim, ...] = ()
    quiet: bool = False


def holds(pod: Pod) -> bool:
    """Whether the pod takes room on its node."""
    return bool(pod.spec.node_name) and not pod.finished
