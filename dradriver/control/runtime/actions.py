"""The writes of this package as values, which `executor` carries out.

The docstring of each action describes the state of the cluster if the process dies right after it, and which
component continues from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Literal, TypeAlias

from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.meta import Condition, ObjectReference
from dradriver.model.core.workload import ExtendedResourceClaim, Pod
from dradriver.model.resource.claim import Allocation, ConsumerReference, ResourceClaim
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = [
    "Action",
    "AddFinalizer",
    "Allocate",
    "Bind",
    "CreateClaim",
    "DeleteClaim",
    "DeleteContext",
    "EmitEvent",
    "Evict",
    "LookUpPlan",
    "LookUpPod",
    "NextAction",
    "Nominate",
    "Nudge",
    "RecordClaims",
    "RecordSpecialClaim",
    "Release",
    "RemoveFinalizer",
    "ReportUnschedulable",
    "RequestDeallocation",
    "Reserve",
    "SetRuleCondition",
    "Step",
    "WriteContext",
]


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Creates a claim of a pod: from a template, or for the pod's extended resources.

    If the process dies after this write, the claim exists, and the pod does not name it. If the claim is from a
    template, the next step names it (`RecordClaims`). If it is for extended resources, the scheduler's next
    attempt for the pod finds the claim by its owner, and deletes it because it has no allocation. If the pod is
    gone, the garbage collector deletes the claim.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class RecordClaims:
    """Writes the names of the claims that were created for a pod to its `status.resourceClaimStatuses`.

    If the process dies after this write, no work is left.
    """

    pod: Pod
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RecordSpecialClaim:
    """Writes the name of the special claim for extended resources to the pod's status, right before `Bind`.

    If the process dies after this write, the claim is complete, and the scheduler's next attempt for the pod
    uses the claim. If the pod cannot use the claim, the scheduler selects another node on which devices serve
    the resources, and the name of the next claim replaces this name. The API server does not allow a client to
    clear the field.
    """

    pod: Pod
    status: ExtendedResourceClaim


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Deletes a claim that was created for a pod, if the pod will not run again or will use another claim.

    If the process dies after this write, a finalizer may keep the claim. The next process finds the deletion
    timestamp and removes the finalizer (`RemoveFinalizer`).
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class LookUpPlan:
    """Reads the objects that a plan for a pod may have written: first the claims, then the pod.

    This action writes no objects. `pod_ref` is `namespace/name` of the pod. `pod` is None if the pod is known
    to be gone.
    """

    pod_ref: str
    claims: tuple[ResourceClaim, ...]
    pod: Pod | None


@dataclass(frozen=True, slots=True)
class LookUpPod:
    """Reads a pod that has reserved a claim and is not in the cache; this action writes no objects."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Adds the finalizer that protects a claim from deletion, before the claim is allocated.

    If the process dies after this write, the finalizer is harmless: the next allocation uses it, and if the
    claim is deleted, the controller removes it.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class Allocate:
    """Writes an allocation and reserves the claim for its first consumer, in one write.

    If the devices have compatibility groups, a dry run is sent first, which changes no object. If the process
    dies after the write, the claim is allocated and reserved for a pod without a node. The scheduler's next
    attempt for the pod uses the allocation. If the pod is gone, the reservation is released.
    """

    claim: ResourceClaim
    allocation: Allocation
    consumer: ConsumerReference


@dataclass(frozen=True, slots=True)
class Reserve:
    """Adds a consumer to an allocated claim.

    If the process dies after this write, the consequences are those of `Allocate`.
    """

    claim: ResourceClaim
    consumer: ConsumerReference


@dataclass(frozen=True, slots=True)
class Release:
    """Removes consumers from a claim, and deallocates the claim if `deallocate` is set and no consumer remains.

    A second write removes the finalizer of a deallocated claim. If the process dies between the two writes, the
    consequences are those of `AddFinalizer`.
    """

    claim: ResourceClaim
    remaining: tuple[ConsumerReference, ...] = ()
    deallocate: bool = False


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Removes the finalizer of a claim that is being deleted, or that the scheduler will delete next.

    If the process dies after this write, no work is left for a claim that is being deleted. A special claim
    that still exists is not used without its finalizer: the scheduler's next attempt for the pod deletes the
    claim, or the garbage collector deletes it after the pod.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Writes the potential nodes and the selected node of a pod to its PodSchedulingContext (KEP-3063).

    If the object does not exist, it is created. If it belongs to an earlier pod of this name, it is deleted
    first. If the process dies after the write, the controllers answer, or allocate for the selected node. The
    next process makes its plan from their answers and allocations, and selects the same node if it still suits.
    If the process dies after the deletion, the next process creates the object.

    Attributes:
        pod: the pod.
        spec: the new content.
        context: the object that has the pod's name. None: there is none.
    """

    pod: Pod
    spec: SchedulingSpec
    context: PodSchedulingContext | None = None


@dataclass(frozen=True, slots=True)
class DeleteContext:
    """Deletes a PodSchedulingContext whose pod is bound, has ended, or was replaced.

    If the process dies after this write, no work is left.
    """

    context: PodSchedulingContext


@dataclass(frozen=True, slots=True)
class RequestDeallocation:
    """Asks the controller of a claim to deallocate it, and removes consumers (KEP-3063).

    The condition DeallocationRequested of the claim's first device and the consumers are one write. A claim
    without devices has no such condition: then the request is written to the controller's record first, and
    the consumers are removed by a second write. If the process dies between the two writes, the scheduler's
    next attempt for the pod removes the consumers. If it dies after them, the controller deallocates the claim,
    and the scheduler's next attempt for the pod negotiates again.

    Attributes:
        claim: the claim.
        record: the controller's record of the allocation. Only a claim without devices needs it.
        remaining: the consumers that keep their reservation.
        message: the reason for users.
    """

    claim: ResourceClaim
    record: ControllerAllocation | None = None
    remaining: tuple[ConsumerReference, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Sets a pod's `status.nominatedNodeName` to the node on which it will run when its devices are ready.

    The nomination keeps other components, such as a cluster autoscaler, from removing the node. A pod that
    preempts others is nominated before they are evicted. If the process dies after this write, the restarted
    scheduler tries this node first, and selects victims again if there are any. A binding, or a report that the
    pod is unschedulable, clears the field.
    """

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Nudge:
    """Writes an annotation to a pod, so that kube-scheduler tries the pod again.

    kube-scheduler does not try a pod that an extender refused again when slices, classes or other claims
    change. If the process dies after this write, no work is left.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class Bind:
    """Binds a pod to its node.

    If the process dies after this write, the pod runs. Only its "Scheduled" event is lost.
    """

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class ReportUnschedulable:
    """Writes the reason to the pod's PodScheduled condition and an event, and sets the nominated node.

    If `nominated_node` is empty, because the pod waits for no victims, the field is cleared. If the process
    dies after these writes, no work is left. If it dies between them, the event is lost.
    """

    pod: Pod
    reason: str
    message: str
    nominated_node: str = ""


@dataclass(frozen=True, slots=True)
class Evict:
    """Sets the condition DisruptionTarget on a pod, writes an event, and deletes the pod.

    The delete names the UID, so another pod of the same name is never deleted. If the process dies between the
    writes, the next process finds that the pod still exists. It evicts the pod if a taint still requires this,
    or if the pod is still a victim: a preemption is decided again, from the objects. If the process dies after
    the delete, the pod is leaving. The next process waits for it and evicts no other pod in its place.

    Attributes:
        pod: the pod.
        reason, message: the reason and the message of the condition.
        event: the reason and the message of the event.
    """

    pod: Pod
    reason: str
    message: str
    event: tuple[str, str]


@dataclass(frozen=True, slots=True)
class SetRuleCondition:
    """Writes the progress of evictions to a DeviceTaintRule's status.

    If the process dies after this write, no work is left.
    """

    rule: DeviceTaintRule
    condition: Condition


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Writes an event.

    If the process dies after this write, no work is left.
    """

    regarding: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Action: TypeAlias = (
    CreateClaim
    | RecordClaims
    | RecordSpecialClaim
    | DeleteClaim
    | LookUpPlan
    | LookUpPod
    | AddFinalizer
    | Allocate
    | Reserve
    | Release
    | RemoveFinalizer
    | WriteContext
    | DeleteContext
    | RequestDeallocation
    | Nominate
    | Nudge
    | Bind
    | ReportUnschedulable
    | Evict
    | SetRuleCondition
    | EmitEvent
)


class NextAction(Enum):
    """What the loop does with a key after a step."""

    CONTINUE = auto()
    """Decide on the next step immediately."""
    DONE = auto()
    """No work is left for the key; its backoff is reset."""
    WAIT = auto()
    """Decide again only after a change in the cluster, or at the deadline."""
    RETRY = auto()
    """Decide again after a backoff."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decision: at most one action, and what the loop does with the key afterwards.

    Attributes:
        next: what the loop does with the key afterwards.
        action: the write. None if there is none.
        deadline: the time at which to decide again, even if nothing has changed.
    """

    next: NextAction
    action: Action | None = None
    deadline: datetime | None = None
