"""The input, the working values and the result of a scheduling decision."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from msgspec.structs import replace

from dradriver.control.classic import AwaitedClaim, ClassicObjects
from dradriver.control.conflicts.double_allocations import DoubleAllocation
from dradriver.control.extended import ScoringStrategy, SpecialClaimPlan
from dradriver.control.preemption.victims import Preemption
from dradriver.control.queueing.cycle_times import CycleTimes
from dradriver.control.runtime.actions import (
    DeleteClaim,
    Release,
    RemoveFinalizer,
    RequestDeallocation,
    WriteContext,
)
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.node_choice.refusals import NodeRefusals
from dradriver.model.classic.controlled_claims import ControlledClaim
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import Allocation, ResourceClaim

__all__ = [
    "UNDECIDED",
    "AssumedAllocation",
    "ClassicNeeds",
    "Cycle",
    "NoNode",
    "Plan",
    "PlanFailed",
    "Snapshot",
    "Unschedulable",
    "Write",
    "assume_allocation",
    "assumed_allocations",
    "counts_on_node",
    "refuse_all_nodes",
]

Write: TypeAlias = Release | RemoveFinalizer | DeleteClaim | WriteContext | RequestDeallocation
"""A write for a pod without a suitable node."""

UNDECIDED: Final = "AllocationUndecided"
"""The reason in a pod's condition if the allocator gave up on a node, so that the pod may still fit."""


@dataclass(frozen=True)
class Snapshot:
    """The objects that a decision reads.

    Attributes:
        cluster: nodes, devices and pods. Assumed allocations of plans in flight count as written.
        claims: the pod's claims, by `namespace/name`. It may have other claims, too.
        claim_names: `namespace/name` of all claims.
        in_flight: UIDs of claims that a plan in flight will allocate.
        has_anti_affinity: whether a pod of the cluster has required anti-affinity.
        now: the timestamp of new allocations.
        deadline: the deadline of the wait for binding conditions.
        leftovers: special claims of earlier attempts for the pod that is being scheduled.
        conflicts: for each claim of the pod that must give way to another claim, the reason, by UID.
        scoring: the strategy that scores nodes.
        nodes: the nodes from which to choose; another scheduler has checked everything about them but devices.
            None: all nodes, whose readiness, cordon, affinity and taints are checked too.
        classic: the objects of classic DRA for the pod (KEP-3063).
    """

    cluster: ClusterState
    claims: Mapping[str, ResourceClaim]
    claim_names: Collection[str]
    in_flight: Collection[str] = ()
    has_anti_affinity: bool = False
    now: datetime | None = None
    deadline: BindingDeadline = field(default_factory=BindingDeadline)
    leftovers: Sequence[ResourceClaim] = ()
    conflicts: Mapping[str, DoubleAllocation] = field(default_factory=dict)
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)
    nodes: Collection[str] | None = None
    classic: ClassicObjects = field(default_factory=ClassicObjects)

    @property
    def candidates(self) -> Collection[str]:
        """Return the names of the nodes from which to choose."""
        return self.cluster.nodes if self.nodes is None else self.nodes


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of scheduling a pod: a node and devices, which are still to be written.

    Attributes:
        pod_uid: the UID of the pod.
        node: the node's name.
        claims: `namespace/name` and UID of each claim of the pod, in the order of the pod's spec.
        allocations: the allocations that are still to be written, by the UID of the claim.
        special: the special claim for the pod's extended resources, if devices serve them. It contains the
            allocation until the claim is created. Then the claim is also in `claims`, and the allocation in
            `allocations`.
        other_nodes: other nodes that suit the pod, if they were looked for, with scores from 0 to 1.
        pending_classic: the claims that controllers must allocate for the node first (KEP-3063).
        potential_nodes: the potential nodes for these controllers. The node is one of them.
    """

    pod_uid: str
    node: str
    claims: tuple[tuple[str, str], ...] = ()
    allocations: Mapping[str, Allocation] = field(default_factory=dict)
    special: SpecialClaimPlan | None = None
    other_nodes: Mapping[str, float] = field(default_factory=dict)
    pending_classic: tuple[AwaitedClaim, ...] = ()
    potential_nodes: tuple[str, ...] = ()

    @property
    def in_flight(self) -> Collection[str]:
        """Return the UIDs of the claims that will be allocated for this plan."""
        return {*self.allocations, *(each.uid for each in self.pending_classic)}


@dataclass(frozen=True, slots=True)
class AssumedAllocation:
    """The allocation that a plan will write to a claim.

    Attributes:
        uid: the UID of the claim; empty if the claim is a special claim that is still to be created.
        allocation: the allocation.
        special: the special claim that is still to be created; None for other claims.
    """

    uid: str
    allocation: Allocation
    special: ResourceClaim | None = None


def assumed_allocations(plan: Plan) -> Iterator[tuple[str, AssumedAllocation]]:
    """Yield the allocations that a plan has not written yet, each with `namespace/name` of its claim."""
    for ref, uid in plan.claims:
        if uid in plan.allocations:
            yield ref, AssumedAllocation(uid, plan.allocations[uid])
    special = plan.special
    if special is not None and special.allocation is not None:
        yield special.claim.ref, AssumedAllocation("", special.allocation, special.claim)


def assume_allocation(claim: ResourceClaim | None, assumed: AssumedAllocation | None) -> ResourceClaim | None:
    """Return a claim as it will be when its plan is written.

    Args:
        claim: the claim in the cache; None if it does not exist.
        assumed: the allocation that a plan has for the claim's name, if there is one.

    Returns:
        The claim; None if it does not exist, and no plan will create it. If the claim has an allocation
        already, or if it is another claim than that of the plan, it is returned unchanged.
    """
    if assumed is None:
        return claim
    planned = claim or assumed.special
    if planned is None or planned.allocation is not None or assumed.uid not in {"", planned.metadata.uid}:
        return claim
    return replace(planned, status=replace(planned.status, allocation=assumed.allocation))


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Why a pod has no node.

    Attributes:
        message: the message for users, as kube-scheduler writes it.
        reason: the reason in the pod's condition.
        releases: writes to carry out first. They remove reservations of the waiting pod, special claims of
            earlier attempts, and each allocation that excludes a node for the pod if no other pod uses it. For
            classic claims they are the next round of the negotiation, or the request to deallocate one claim.
        quiet: True if users need no report, because another component will soon change the situation.
        every_node: the reason if it applies to all nodes.
        refusals: the reasons of the nodes if they may differ.
        preemption: the node and the pods to evict, if evictions give the pod its devices.
        awaits_drivers: whether a node suits the pod, but controllers must answer before it is selected.
        lacks_claims: whether a claim of the pod does not exist, is being deleted, or is of another pod.
    """

    message: str
    reason: str = "Unschedulable"
    releases: tuple[Write, ...] = ()
    quiet: bool = False
    every_node: str = ""
    refusals: NodeRefusals | None = None
    preemption: Preemption | None = None
    awaits_drivers: bool = False
    lacks_claims: bool = False

    @property
    def nominated_node(self) -> str:
        """Return the node for which the pod is nominated while its victims leave; empty if there is none."""
        return self.preemption.node if self.preemption is not None else ""


def counts_on_node(pod: Pod) -> bool:
    """Return whether the pod has a node and has not ended, so that it uses resources of the node."""
    return bool(pod.spec.node_name) and not pod.finished


@dataclass(slots=True)
class ClassicNeeds:
    """The classic claims of the pod of an attempt (KEP-3063).

    Attributes:
        unallocated: the unallocated claims by UID.
        awaited: those of them that are allocated for a node.
        context: the pod's context; None if it has none.
        unsuitable: the nodes that an answer calls unsuitable, each with the claim.
        is_refused: whether an answer excludes a node on which the allocated claims are available.
    """

    unallocated: Mapping[str, ControlledClaim]
    awaited: tuple[AwaitedClaim, ...]
    context: PodSchedulingContext | None = None
    unsuitable: dict[str, AwaitedClaim] = field(default_factory=dict)
    is_refused: bool = False


@dataclass
class Cycle:
    """One attempt to schedule one pod.

    Attributes:
        pod, snapshot: the input of the decision.
        claims: the pod's claims.
        unavailable: UIDs of allocated claims that cannot be used on at least one node.
        amounts: how much of each extended resource the pod requests.
        leftover: the special claim of an earlier attempt, if it is complete. It is also one of `claims`.
        special: for each node, the special claim that the pod would have on the node.
        times: the time that each extension point, and each plugin at Filter, took.
        checked: for each node that was checked, why it does not suit the pod, whatever devices are free.
        precedence: the nominated pods whose devices are kept from this pod, each with its node.
        kind: a key that is equal for pods that all nodes refuse for the same reasons; None if there is none.
        classic: the classic claims of the pod; None if it has none.
    """

    pod: Pod
    snapshot: Snapshot
    claims: list[ResourceClaim] = field(default_factory=list)
    unavailable: set[str] = field(default_factory=set)
    amounts: Mapping[str, int] = field(default_factory=dict)
    leftover: ResourceClaim | None = None
    special: dict[str, SpecialClaimPlan] = field(default_factory=dict)
    times: CycleTimes = field(default_factory=CycleTimes)
    checked: dict[str, str | None] = field(default_factory=dict)
    precedence: tuple[tuple[str, str], ...] = ()
    kind: Hashable | None = None
    classic: ClassicNeeds | None = None

    @property
    def to_allocate(self) -> list[ResourceClaim]:
        """The claims that the scheduler must allocate."""
        if self.classic is None:
            return [claim for claim in self.claims if claim.allocation is None]
        theirs = self.classic.unallocated
        return [c for c in self.claims if c.allocation is None and c.metadata.uid not in theirs]


class NoNode(Exception):  # noqa: N818 - a verdict
    """No node can serve the pod.

    Attributes:
        verdict: why.
        may_preempt: whether the eviction of other pods may help.
    """

    def __init__(self, verdict: Unschedulable, *, may_preempt: bool = False) -> None:
        self.verdict = verdict
        self.may_preempt = may_preempt
        super().__init__(verdict.message)


class PlanFailed(Exception):  # noqa: N818 - a finding
    """The plan can no longer be carried out, and the pod must be scheduled again; the message is the reason."""


def refuse_all_nodes(
    cycle: Cycle, reason: str, *, quiet: bool = False, lacks_claims: bool = False
) -> Unschedulable:
    """Return a verdict with a reason that applies to all nodes."""
    message = f"0/{len(cycle.snapshot.candidates)} nodes are available: {reason}."
    return Unschedulable(message, quiet=quiet, every_node=reason, lacks_claims=lacks_claims)
