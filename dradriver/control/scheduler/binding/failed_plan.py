"""A failed plan, and the progress of Unreserve."""

from dataclasses import dataclass, field

from dradriver.control.runtime.actions import DeleteClaim, Release, RemoveFinalizer
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.binding.plan_writes import Claims, PlanFailed, Preempted, unreserve
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.core.workload import Pod

__all__ = ["FailedPlan"]


@dataclass(slots=True)
class FailedPlan:
    """A failed plan, and the progress of Unreserve.

    Attributes:
        problem: why the plan failed.
        claim: `namespace/name` of the claim that is being released now.
        unreleased: the claims that could not be released, with the API server's messages.
    """

    problem: PlanFailed
    claim: str = ""
    unreleased: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        errors = (f"; claim {ref} could not be released: {error}" for ref, error in self.unreleased.items())
        return str(self.problem) + "".join(errors)

    def next_release(
        self, plan: Plan, pod: Pod, claims: Claims, deadline: BindingDeadline
    ) -> Release | RemoveFinalizer | DeleteClaim | None:
        """Return the next write that reverts the plan, as in `unreserve`; None if no write is left.

        Claims that could not be released are left to the pod's next attempt.

        Args:
            plan: the plan that failed.
            pod: the pod of the plan. It is known to have no node.
            claims: the current versions of all claims.
            deadline: the deadline of the wait for binding conditions.
        """
        keeps_devices = not isinstance(self.problem, Preempted)
        release = unreserve(plan, pod, claims, deadline, self.unreleased, keeps_devices=keeps_devices)
        if release is not None:
            self.claim = release.claim.ref
        return release

    def record_rejection(self, error: str) -> None:
        """Record that the API server rejected the last write, so the claim stays allocated and reserved.

        Args:
            error: the API server's message.
        """
        self.unreleased[self.claim] = error
