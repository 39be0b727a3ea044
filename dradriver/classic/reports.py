"""Report failed operations: as Events of the claims, and as metrics.

The reports are in memory only: the next process meets the same problems and reports them again.
"""

from typing import Final, Literal

from dradriver.classic.metrics import ControllerMetrics
from dradriver.kube import CLAIMS, EventRecorder
from dradriver.model.core.meta import ObjectReference

__all__ = ["ControllerReports", "Failure"]

Failure = Literal["allocate", "deallocate", "unsuitable_nodes", "conflict", "release"]

_REASONS: Final = {
    "allocate": "AllocationFailed",
    "deallocate": "DeallocationFailed",
    "unsuitable_nodes": "AllocationFailed",
    "conflict": "ControllerConflict",
    "release": "NotReleased",
}


class ControllerReports:
    """Reports the failures of one controller.

    Args:
        recorder: writes the Events.
        metrics: counts the failures.
    """

    def __init__(self, recorder: EventRecorder, metrics: ControllerMetrics) -> None:
        self.metrics = metrics
        self._recorder = recorder

    def report(self, failure: Failure, namespace: str, name: str, uid: str, message: str) -> None:
        """Write an Event of a claim, and count the failure. Call it from the event loop.

        Args:
            failure: the failed operation. `conflict`: another controller works on the claim. `release`: a node
                has not released it.
            namespace: the namespace of the claim.
            name: the name of the claim.
            uid: the UID of the claim.
            message: the reason, for users.
        """
        self.metrics.count_failure(failure)
        reference = ObjectReference(
            api_version=CLAIMS.api_version, kind=CLAIMS.kind, namespace=namespace, name=name, uid=uid
        )
        self._recorder.post(reference, "Warning", _REASONS[failure], message)
