"""Warnings about pods. The kubelet reports a failed prepare only in an event."""

from datetime import UTC, datetime
from typing import Final

from dradriver.errors import DraError
from dradriver.kube import EVENTS, Client
from dradriver.model.core.meta import ObjectMeta, ObjectReference
from dradriver.model.encoding.codec import Value

__all__ = ["PREPARE_FAILED", "PodEvent", "list_prepare_failures"]

PREPARE_FAILED: Final = "FailedPrepareDynamicResources"
"""Reason of the kubelet's events about a failed prepare."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class PodEvent(Value, frozen=True, kw_only=True):
    """`v1` Event, as far as people need it."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None

    @property
    def when(self) -> datetime:
        """The time of its last occurrence."""
        return self.last_timestamp or self.metadata.creation_timestamp or _LONG_AGO


async def list_prepare_failures(client: Client) -> list[PodEvent]:
    """Return the kubelets' events about failed prepares; empty if the user may not read events."""
    fields = f"type=Warning,involvedObject.kind=Pod,reason={PREPARE_FAILED}"
    try:
        return (await client.list(EVENTS, into=PodEvent, fields=fields)).items
    except DraError:
        return []
