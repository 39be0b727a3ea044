"""The settings of the scheduler."""

from dataclasses import dataclass, field
from datetime import timedelta

from dradriver.allocator import BUDGET, ORDERED, Features, Order
from dradriver.control.extended import ScoringStrategy
from dradriver.control.scheduler.binding.binding_conditions import BINDING_TIMEOUT

__all__ = ["SchedulerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The settings of the scheduler; `features` also apply to the controllers.

    Attributes:
        features: the features that the allocator may use.
        binding_timeout: the time from the allocation of a claim to the deadline of its binding conditions.
        pod_backoff: the first and the longest wait, in seconds, before the next attempt for a pod whose devices
            did not become ready, or for which a write was rejected (kube-scheduler's `podInitialBackoffSeconds`
            and `podMaxBackoffSeconds`).
        budget: the work in microseconds of one core after which the allocator gives up on a node.
        order: the order in which the allocator prefers devices of a node.
        scoring: the strategy that scores nodes for pods with extended resources. Default: all nodes have equal
            scores.
    """

    features: Features = field(default_factory=Features)
    binding_timeout: timedelta = BINDING_TIMEOUT
    pod_backoff: tuple[float, float] = (1.0, 10.0)
    budget: int = BUDGET
    order: Order = ORDERED
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)
