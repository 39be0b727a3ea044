"""The writes of this package as values; `executor` carries them out.

Each says what stands in the cluster when the process dies right after it, and who goes on from there.
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
    """Makes the claim of a pod: from its template, or for its extended resources.

    Dies after: the claim is there and its pod does not name it. From a template: the next step names it
    (`RecordClaims`). For extended resources: the scheduler's next attempt for that pod finds it by its owner
    and deletes it, as it holds nothing; if the pod is gone the garbage collector does.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class RecordClaims:
    """Names the claims that were made for a pod in `status.resourceClaimStatuses`.

    Dies after: nothing is left to do.
    """

    pod: Pod
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RecordSpecialClaim:
    """Names the claim for a pod's extended resources in its status, just before `Bind`.

    Dies after: the claim is complete, and the scheduler's next attempt for that pod uses it. If that can't be,
    the pod goes to a node where devices serve it once more, and the next claim is written over this one: the
    API server does not let it be taken back.
    """

    pod: Pod
    status: ExtendedResourceClaim


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Deletes a claim that was made for a pod which will not run again, or not with this claim.

    Dies after: a finalizer may hold the claim; `RemoveFinalizer` follows from its deletion timestamp.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class LookUpPlan:
    """Reads what a plan for the pod `namespace/name` may have written: its claims, then the pod itself.

    Writes nothing. A pod that is known to be gone is None.
    """

    wanted_for: str
    claims: tuple[ResourceClaim, ...]
    pod: Pod | None


@dataclass(frozen=True, slots=True)
class LookUpPod:
    """Asks the API server for a pod that holds a reservation and is not in the cache. Writes nothing."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Protects a claim that is about to be allocated from vanishing.

    Dies after: the finalizer does no harm; the next allocation finds it, a deletion removes it.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class Allocate:
    """Writes an allocation and reserves the claim for its first consumer, in one write.

    Devices with compatibility groups cost a dry run before, which leaves nothing behind.

    Dies after: the claim is allocated and reserved for a pod without a node; the scheduler's next attempt for
    that pod uses it, and if the pod is gone the reservation is released.
    """

    claim: ResourceClaim
    allocation: Allocation
    consumer: ConsumerReference


@dataclass(frozen=True, slots=True)
class Reserve:
    """Adds a consumer to an allocated claim.

    Dies after: as with `Allocate`.
    """

    claim: ResourceClaim
    consumer: ConsumerReference


@dataclass(frozen=True, slots=True)
class Release:
    """Leaves only some of the consumers, and without any takes back the allocation if `deallocate` is set.

    A deallocated claim also loses its finalizer, in a second write. Dies between: as with `AddFinalizer`.
    """

    claim: ResourceClaim
    remaining: tuple[ConsumerReference, ...] = ()
    deallocate: bool = False


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Lets a claim go that is deleted, or is about to be.

    Dies after: of a deleted claim nothing is left to do. A special claim that still stands is not used without
    its finalizer: the scheduler's next attempt for its pod deletes it, or the garbage collector after the pod.
    """

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class Nominate:
    """Says in `status.nominatedNodeName` where a pod will run once its devices are ready.

    So that others (a cluster autoscaler) leave the node alone, and a restarted scheduler tries it first.
    Dies after: the pod is tried on that node first; a binding or a report of failure takes the name away.
    """

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Gives a pod its node.

    Dies after: the pod runs; only its "Scheduled" event is lost.
    """

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class ReportUnschedulable:
    """Says in the pod's PodScheduled condition and in an event why it has no node, and nominates none.

    Dies after: nothing is left to do (between the two: the event is lost).
    """

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Deletes a pod whose devices are tainted, and says in its condition DisruptionTarget why.

    Dies between condition and deletion: the next start finds the pod as it was, and evicts it.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class SetRuleCondition:
    """Says in a DeviceTaintRule's status how far its evictions are. Dies after: nothing is left to do."""

    rule: DeviceTaintRule
    condition: Condition


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Writes an event. Dies after: nothing is left to do."""

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
    """What to do with a key after the step."""

    AGAIN = auto()
    """Ask for the next step."""
    DONE = auto()
    """Nothing is left; forget how often it was tried."""
    WAIT = auto()
    """Only a change in the cluster can help."""
    LATER = auto()
    """Try again after a wait that grows."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decision: one action or none, and what then.

    Attributes:
        then: what to do with the key.
        action: the write.
        deadline: when to ask again even if nothing changes.
    """

    then: NextAction
    action: Action | None = None
    deadline: datetime | None = None
