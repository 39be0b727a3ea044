"""Report attachments that cannot be finished, and conditions that are not stored.

The reports are counters, the values of a gauge, and events of claims. They are in memory only: the next process
detects the same problems and reports them again.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from dradriver.driver import Attachment
from dradriver.kube import CLAIMS, EventRecorder
from dradriver.model.core.meta import ObjectReference
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["AttachmentReports", "Operation"]

Operation = Literal["attach", "detach", "release"]

_REASONS: Final[Mapping[Operation, str]] = {
    "attach": "AttachTimeout",
    "detach": "DetachFailed",
    "release": "NotReleased",
}


class AttachmentReports:
    """Reports errors, and attachments that are stuck in one of the driver's methods.

    Args:
        recorder: writes the events.
        on_error: called for each error, with the name of the method.
    """

    def __init__(self, recorder: EventRecorder, on_error: Callable[[str], None]) -> None:
        self.count_error = on_error
        self._recorder = recorder
        self._stuck: dict[Operation, set[Attachment]] = {operation: set() for operation in _REASONS}

    def report_stuck(
        self, operation: Operation, claim: ResourceClaim, attachment: Attachment, problem: str
    ) -> None:
        """Report that the method took too long or must be called again, or that a node holds the device.

        Call it from the event loop.
        """
        self._stuck[operation].add(attachment)
        self._post(
            claim, _REASONS[operation], f"device {attachment.device} of pool {attachment.pool}: {problem}"
        )

    def report_dropped(self, claim: ResourceClaim, problem: str) -> None:
        """Report that the API server does not store the conditions of a claim's devices.

        Call it from the event loop.
        """
        self.count_error("attach")
        self._post(claim, "ConditionsDropped", problem)

    def _post(self, claim: ResourceClaim, reason: str, message: str) -> None:
        meta = claim.metadata
        reference = ObjectReference(
            api_version=CLAIMS.api_version,
            kind=CLAIMS.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
        )
        self._recorder.post(reference, "Warning", reason, message)

    def clear_stuck(self, operation: Operation, attachment: Attachment) -> None:
        """Record that the method has ended, or that the node has released the device."""
        self._stuck[operation].discard(attachment)

    def stuck_counts(self) -> Mapping[str, int]:
        """Return the number of attachments that are stuck in each operation."""
        return {operation: len(attachments) for operation, attachments in self._stuck.items()}
