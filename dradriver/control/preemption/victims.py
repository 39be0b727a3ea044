"""The victims of a preemption as values, and the order in which pods and nodes are preferred.

All functions are pure. The rules are those of kube-scheduler 1.37 (`pkg/scheduler/framework/preemption`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from dradriver.model.core.disruption_budget import PodDisruptionBudget
from dradriver.model.core.workload import Pod

__all__ = [
    "PREEMPTED",
    "Preemption",
    "Victims",
    "is_preempted",
    "rank_candidate",
    "rank_importance",
    "split_by_budgets",
]

PREEMPTED: Final = "PreemptionByScheduler"
"""The reason in the condition DisruptionTarget of a victim."""

_NOT_STARTED: Final = datetime.max.replace(tzinfo=UTC)
_LOWEST: Final = 2**31
"""Added to each priority, so that no priority in a sum is negative."""

_Rank: TypeAlias = tuple[int, int, int, int, float, str]


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from one node.

    Attributes:
        pods: the pods, the most important one first.
        violations: the number of these pods whose eviction violates a PodDisruptionBudget.
    """

    pods: tuple[Pod, ...] = ()
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """How a pod gets its devices.

    Attributes:
        node: the node for which the pod is nominated.
        victims: the pods to evict. Empty: the pod waits for pods that are being deleted already.
    """

    node: str
    victims: tuple[Pod, ...] = ()

    @property
    def message(self) -> str:
        """Return the sentence for the pod's condition, as kube-scheduler writes it."""
        if not self.victims:
            return "preemption: not eligible due to a terminating pod on the nominated node."
        return (
            f"preemption: found a potential placement for pod on node {self.node}, "
            f"preempting {len(self.victims)} victims"
        )


def is_preempted(pod: Pod) -> bool:
    """Return whether a pod is being deleted because a scheduler preempted it (`PodTerminatingByPreemption`)."""
    if pod.metadata.deletion_timestamp is None:
        return False
    target = next((each for each in pod.status.conditions if each.type == "DisruptionTarget"), None)
    return target is not None and (target.status, target.reason) == ("True", PREEMPTED)


def rank_importance(pod: Pod) -> tuple[int, datetime, str]:
    """Return the sort key of a possible victim; more important pods come first (`MoreImportantPod`)."""
    return -pod.priority, pod.status.start_time or _NOT_STARTED, pod.ref


def split_by_budgets(
    pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    """Divide possible victims by whether their eviction would violate a PodDisruptionBudget.

    Args:
        pods: the pods, the most important one first. Each pod uses up one allowed disruption of its budgets.
        budgets: all budgets.

    Returns:
        The pods whose eviction violates a budget, and the other pods.

    Source: `FilterVictimsWithPDBViolation`.
    """
    allowed = {budget.ref: budget.status.disruptions_allowed for budget in budgets}
    listed = sorted(budgets, key=lambda budget: budget.ref)
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        (violating if _violates(pod, listed, allowed) else others).append(pod)
    return violating, others


def _violates(pod: Pod, budgets: Sequence[PodDisruptionBudget], allowed: dict[str, int]) -> bool:
    for budget in budgets:
        if not _selects(budget, pod) or pod.metadata.name in budget.status.disrupted_pods:
            continue
        allowed[budget.ref] -= 1
        if allowed[budget.ref] < 0:
            return True  # the budgets after it are not counted, as in kube-scheduler
    return False


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return (
        budget.metadata.namespace == pod.metadata.namespace
        and selector is not None
        and bool(pod.metadata.labels)
        and bool(selector.match_labels or selector.match_expressions)
        and selector.matches(pod.metadata.labels)
    )


def rank_candidate(node: str, victims: Victims) -> _Rank:
    """Return the sort key of a node; the best node for a preemption comes first (`pickOneNodeForPreemption`).

    Args:
        node: the node's name.
        victims: its victims, at least one.
    """
    highest = max(pod.priority for pod in victims.pods)
    first_start = min(
        (pod.status.start_time or _NOT_STARTED).timestamp() for pod in victims.pods if pod.priority == highest
    )
    return (
        victims.violations,
        highest,
        sum(pod.priority + _LOWEST for pod in victims.pods),
        len(victims.pods),
        -first_start,
        node,
    )
