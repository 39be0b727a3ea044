"""Warnings about pods and claims. Failed prepares, and failures of controllers, are reported only in events."""

from datetime import UTC, datetime
from typing import Final

from dradriver.errors import DraError
from dradriver.kube import CLAIMS, EVENTS, Client
from dradriver.model.core.meta import ObjectMeta, ObjectReference
from dradriver.model.encoding.codec import Value

__all__ = [
    "CONTROLLER_FAILURES",
    "PREPARE_FAILED",
    "PodEvent",
    "list_controller_failures",
    "list_prepare_failures",
]

PREPARE_FAILED: Final = "FailedPrepareDynamicResources"
"""Reason of the kubelet's events about a failed prepare."""

CONTROLLER_FAILURES: Final = frozenset(
    {"AllocationFailed", "DeallocationFailed", "ControllerConflict", "NotReleased"}
)
"""Reasons of the events of classic claims, which their controllers write."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class PodEvent(Value, frozen=True, kw_only=True):
    """`v1` Event, with the fields that commands show."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None

    @property
    def last_seen(self) -> datetime:
        """The time at which the event last occurred."""
        return self.last_timestamp or self.metadata.creation_timestamp or _LONG_AGO


async def list_prepare_failures(client: Client) -> list[PodEvent]:
    """Return the kubelets' events about failed prepares; empty if the user has no permission to read events.

    Args:
        client: client of the cluster.
    """
    return await _list_warnings(client, f"involvedObject.kind=Pod,reason={PREPARE_FAILED}")


async def list_controller_failures(client: Client) -> list[PodEvent]:
    """Return the controllers' events about classic claims; empty if the user has no permission to read events.

    Args:
        client: client of the cluster.
    """
    events = await _list_warnings(client, f"involvedObject.kind={CLAIMS.kind}")
    return [each for each in events if each.reason in CONTROLLER_FAILURES]


async def _list_warnings(client: Client, fields: str) -> list[PodEvent]:
    try:
        return (await client.list(EVENTS, into=PodEvent, fields=f"type=Warning,{fields}")).items
    except DraError:
        return []
