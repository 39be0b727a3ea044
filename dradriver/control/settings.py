"""The settings of scheduling."""

from dataclasses import dataclass, field
from datetime import timedelta

from dradriver.allocator import MAX_STEPS, ORDERED, Features, Order
from dradriver.control.extended import ScoringStrategy
from dradriver.control.scheduler.binding_conditions import BINDING_TIMEOUT

__all__ = ["SchedulerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The settings of scheduling.

    Attributes:
        features: the features that the allocator may use.
        binding_timeout: how long after its allocation a claim may wait for binding conditions.
        setback: the first and the longest wait in seconds before the next attempt for a pod whose devices did
            not get ready, or for which a write was refused (kube-scheduler's `podInitialBackoffSeconds` and
            `podMaxBackoffSeconds`).
        max_steps: number of tried devices after which the allocator gives up on a node.
        order: the order in which devices of a node are preferred.
        scoring: the scores of nodes for pods with extended resources; by default all nodes score the same.
    """

    features: Features = field(default_factory=Features)
    binding_timeout: timedelta = BINDING_TIMEOUT
    setback: tuple[float, float] = (1.0, 10.0)
    max_steps: int = MAX_STEPS
    order: Order = ORDERED
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)
