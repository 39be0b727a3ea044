"""`policy/v1` PodDisruptionBudget: the fields that preemption reads."""

from datetime import datetime

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import LabelSelector
from dradriver.model.encoding.codec import Value

__all__ = ["PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(Value, frozen=True, kw_only=True):
    """The selected pods."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Value, frozen=True, kw_only=True):
    """What the disruption controller reports.

    Attributes:
        disruptions_allowed: the number of selected pods that may be evicted now.
        disrupted_pods: the names of pods whose eviction was accepted, with the time. The disruption controller
            does not know yet that these pods are being deleted.
    """

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, datetime | None] = {}


class PodDisruptionBudget(Value, frozen=True, kw_only=True):
    """`policy/v1` PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()

    @property
    def ref(self) -> str:
        """Return `namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
