"""The working values of one attempt to schedule one pod, and the exception that ends it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dradriver.control.extended import Special
from dradriver.control.queueing.attempt_times import FilterTimes
from dradriver.control.scheduler.snapshot import Snapshot, Unschedulable
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import Allocation, DeviceId, ResourceClaim

__all__ = ["Cycle", "NoNode", "everywhere"]


@dataclass
class Cycle:
    """One attempt to schedule one pod.

    Attributes:
        pod, snapshot: the input of the decision.
        claims: the pod's claims.
        allocations: by node the allocations that the allocator found, by UID of the claim.
        unavailable: UIDs of allocated claims that can't be used on some node.
        undecided: whether the allocator gave up on some node.
        invalid: the refusals of nodes on which a pool is invalid.
        amounts: how much of each extended resource the pod requests.
        left: the special claim of an earlier attempt, if it is complete; one of `claims` too.
        special: by node the special claim that the pod would have there.
        ready: by node the devices that match its claims and are ready at once, a mapping for each kind of
            claim; None until they are computed.
        served_by_plugins: the nodes whose device plugins serve a resource that devices serve elsewhere; None
            until they are computed.
        times: the time that each plugin took.
    """

    pod: Pod
    snapshot: Snapshot
    claims: list[ResourceClaim] = field(default_factory=list)
    allocations: dict[str, Mapping[str, Allocation]] = field(default_factory=dict)
    unavailable: set[str] = field(default_factory=set)
    undecided: bool = False
    invalid: set[str] = field(default_factory=set)
    amounts: Mapping[str, int] = field(default_factory=dict)
    left: ResourceClaim | None = None
    special: dict[str, Special] = field(default_factory=dict)
    ready: Sequence[Mapping[str, Sequence[DeviceId]]] | None = None
    served_by_plugins: frozenset[str] | None = None
    times: FilterTimes = field(default_factory=FilterTimes)

    @property
    def to_allocate(self) -> list[ResourceClaim]:
        """The claims that have no allocation yet."""
        return [claim for claim in self.claims if claim.allocation is None]


class NoNode(Exception):  # noqa: N818 - a verdict
    """No node can serve the pod."""

    def __init__(self, verdict: Unschedulable) -> None:
        self.verdict = verdict
        super().__init__(verdict.message)


def everywhere(cycle: Cycle, why: str, *, quiet: bool = False) -> Unschedulable:
    """Return a verdict that holds for all nodes."""
    return Unschedulable(f"0/{len(cycle.snapshot.nodes)} nodes are available: {why}.", quiet=quiet)
