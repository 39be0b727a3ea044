"""The writes of this package as values. `executor` carries them out.

The docstring of each action describes the state of the cluster if the process dies right after it, and which
component continues from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Literal, TypeAlias

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
    "EmitEvent",
    "Evict",
    "LookUpPlan",
    "LookUpPod",
    "NextAction",
    "Nominate",
    "RecordClaims",
    "RecordSpecialClaim",
    "Release",
    "RemoveFinalizer",
    "ReportUnschedulable",
    "Reserve",
    "SetRuleCondition",
    "Step",
]


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Creates the claim of a pod: from its template, or for its extended resources.

    If the process dies after it, the claim exists and its pod does not name it. A claim from a template: the
    next step names it (`RecordClaims`). A claim for extended resources: the scheduler's next attempt for that
    pod finds it by its owner and deletes it, because it holds nothing. If the pod is gone, the garbage
    collector deletes it.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class RecordClaims:
    """Names the claims that were created for a pod in `status.resourceClaimStatuses`.

    If the process dies after it, nothing is left to do.
    """

    pod: Pod
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RecordSpecialClaim:
    """Names the claim for a pod's extended resources in its status, just before `Bind`.

    If the process dies after it, the claim is complete, and the scheduler's next attempt for that pod uses it.
    If the pod can't use it, the pod is placed again on a node where devices serve it, and the next claim
    replaces this one in the status: the API server does not let the field be cleared.
    """

    pod: Pod
    status: ExtendedResourceClaim


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Deletes a claim that was created for a pod that will not run again, or not with this claim.

    If the process dies after it, a finalizer may hold the claim. `RemoveFinalizer` follows from its deletion
    timestamp.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class LookUpPlan:
    """Reads the objects that a plan for the pod `namespace/name` may have written: its claims, then the pod.

    Writes nothing. A pod that is known to be gone is None.
    """

    wanted_for: str
    claims: tuple[ResourceClaim, ...]
    pod: Pod | None


@dataclass(frozen=True, slots=True)
class LookUpPod:
    """Reads a pod that holds a reservation and is not in the cache. Writes nothing."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Protects a claim that is about to be allocated from deletion.

    If the process dies after it, the finalizer is harmless: the next allocation finds it, and a deletion
    removes it.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class Allocate:
    """Writes an allocation and reserves the claim for its first consumer, in one write.

    Devices with compatibility groups need a dry run first, which leaves nothing behind. If the process dies
    after the write, the claim is allocated and reserved for a pod without a node. The scheduler's next attempt
    for that pod uses it. If the pod is gone, the reservation is released.
    """

    claim: ResourceClaim
    allocation: Allocation
    consumer: ConsumerReference


@dataclass(frozen=True, slots=True)
class Reserve:
    """Adds a consumer to an allocated claim.

    If the process dies after it, the consequences are those of `Allocate`.
    """

    claim: ResourceClaim
    consumer: ConsumerReference


@dataclass(frozen=True, slots=True)
class Release:
    """Removes consumers from a claim, and deallocates it if `deallocate` is set and none remains.

    A second write removes the finalizer of a deallocated claim. If the process dies between them, the
    consequences are those of `AddFinalizer`.
    """

    claim: ResourceClaim
    remaining: tuple[ConsumerReference, ...] = ()
    deallocate: bool = False


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Removes the finalizer of a claim that is deleted, or is about to be.

    If the process dies after it, nothing is left to do for a deleted claim. A special claim that still exists
    is not used without its finalizer: the scheduler's next attempt for its pod deletes it, or the garbage
    collector does after the pod.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class Nominate:
    """Writes into `status.nominatedNodeName` where a pod will run once its devices are ready.

    Other components (a cluster autoscaler) then leave the node alone, and a restarted scheduler tries it first.
    If the process dies after it, the pod is tried on that node first. A binding, or a report that the pod is
    unschedulable, clears the name.
    """

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Gives a pod its node.

    If the process dies after it, the pod runs. Only its "Scheduled" event is lost.
    """

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class ReportUnschedulable:
    """Writes the reason into the pod's PodScheduled condition and an event, and clears the nominated node.

    If the process dies after it, nothing is left to do. If it dies between the two writes, the event is lost.
    """

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Writes the condition DisruptionTarget of a pod whose devices are tainted, and deletes the pod.

    If the process dies between condition and deletion, the next start finds the pod unchanged and evicts it.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class SetRuleCondition:
    """Writes the progress of evictions into a DeviceTaintRule's status.

    If the process dies after it, nothing is left to do.
    """

    rule: DeviceTaintRule
    condition: Condition


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Writes an event.

    If the process dies after it, nothing is left to do.
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
    | Nominate
    | Bind
    | ReportUnschedulable
    | Evict
    | SetRuleCondition
    | EmitEvent
)


class NextAction(Enum):
    """How a key continues after its step."""

    AGAIN = auto()
    """Ask for the next step."""
    DONE = auto()
    """Nothing is left to do. The count of attempts is reset."""
    WAIT = auto()
    """Only a change in the cluster can help."""
    LATER = auto()
    """Try again after a backoff."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decision: at most one action, and how the key continues.

    Attributes:
        then: how the key continues.
        action: the write.
        deadline: when to ask again even if nothing changes.
    """

    then: NextAction
    action: Action | None = None
    deadline: datetime | None = None
