"""What people learn of devices that do not come on or off, and of conditions that are not stored.

Counters, a gauge's numbers, and events of claims.

In memory only: the next process meets the same devices and says so again.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from dradriver.driver import Attachment
from dradriver.kube import CLAIMS, EventRecorder
from dradriver.model.core.meta import ObjectReference
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["AttachmentReports", "Operation"]

Operation = Literal["attach", "detach"]

_REASONS: Final[Mapping[Operation, str]] = {"attach": "AttachTimeout", "detach": "DetachFailed"}


class AttachmentReports:
    """Tells of errors, and of attachments that are stuck in one of the driver's methods.

    Args:
        recorder: writes the events.
        on_error: is told of each error, with the name of the method.
    """

    def __init__(self, recorder: EventRecorder, on_error: Callable[[str], None]) -> None:
        self.error = on_error
        self._recorder = recorder
        self._stuck: dict[Operation, set[Attachment]] = {operation: set() for operation in _REASONS}

    def stuck(self, operation: Operation, claim: ResourceClaim, attachment: Attachment, problem: str) -> None:
        """The method took too long, or failed and has to be called again; from the loop."""
        self._stuck[operation].add(attachment)
        self._post(
            claim, _REASONS[operation], f"device {attachment.device} of pool {attachment.pool}: {problem}"
        )

    def dropped(self, claim: ResourceClaim, problem: str) -> None:
        """The API server does not store the conditions of a claim's devices; from the loop."""
        self.error("attach")
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

    def ended(self, operation: Operation, attachment: Attachment) -> None:
        """The method has come to an end."""
        self._stuck[operation].discard(attachment)

    def stuck_counts(self) -> Mapping[str, int]:
        """How many attachments are stuck in each method."""
        return {operation: len(attachments) for operation, attachments in self._stuck.items()}
