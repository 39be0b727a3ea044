"""What can be chosen about scheduling."""

from dataclasses import dataclass, field
from datetime import timedelta

from dradriver.allocator import MAX_STEPS, ORDERED, Features, Order
from dradriver.control.extended import ScoringStrategy
from dradriver.control.scheduler.binding_conditions import BINDING_TIMEOUT

__all__ = ["SchedulerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """How pods are scheduled.

    Attributes:
        features: what the allocator may use.
        binding_timeout: how long after its allocation a claim may wait for binding conditions.
        setback: the first and the longest wait in seconds before a pod whose devices did not get ready,
            or for which a write was refused, is tried again (kube-scheduler's `podInitialBackoffSeconds` and
            `podMaxBackoffSeconds`).
        max_steps: after how many tries of a device the allocator gives up on a node.
        order: which devices of a node are preferred.
        scoring: which nodes are better for pods with extended resources; by default all are equally good.
    """

    features: Features = field(default_factory=Features)
    binding_timeout: timedelta = BINDING_TIMEOUT
    setback: tuple[float, float] = (1.0, 10.0)
    max_steps: int = MAX_STEPS
    order: Order = ORDERED
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)
