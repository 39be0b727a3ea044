"""Kubernetes events of a claim or of the Node, which users see with `kubectl describe`.

Events are best effort: nothing waits for them or depends on them. Repeats are aggregated. Rate limit: a burst
of 25 per object, then one per 5 minutes.
"""

from typing import Final, Literal

from dradriver.kube.events import EventRecorder
from dradriver.model.core.meta import ObjectReference
from dradriver.node.state.records import ClaimRef

__all__ = ["BURST", "Announcements", "Reason"]

BURST: Final = 25
"""The limit of client-go."""

Reason = Literal[
    "DeviceInUse",
    "InvalidConfig",
    "PoolRefused",
    "PoolHeld",
    "PoolWithdrawn",
    "PoolFallback",
    "PoolFieldsDropped",
    "RegistrationRefused",
    "NotRegistered",
    "StateSetAside",
    "StateLostClaims",
    "DeviceStatusRefused",
]
"""The reasons of all events; `docs/observe.md` explains them."""


class Announcements:
    """Writes warnings of a driver on a node.

    Args:
        recorder: writes the events.
        node: the node's name.
    """

    def __init__(self, recorder: EventRecorder, node: str) -> None:
        self.recorder = recorder
        # kubectl selects a node's events by its name in the UID field, as the kubelet writes them.
        self._node = ObjectReference(api_version="v1", kind="Node", name=node, uid=node)

    def of_node(self, reason: Reason, message: str) -> None:
        """Write a warning about the node; from the loop."""
        self.recorder.post(self._node, "Warning", reason, f"driver {self.recorder.component}: {message}")

    def of_claim(self, ref: ClaimRef, reason: Reason, message: str) -> None:
        """Write a warning about a claim; from the loop."""
        claim = ObjectReference(
            api_version="resource.k8s.io/v1",
            kind="ResourceClaim",
            namespace=ref.namespace,
            name=ref.name,
            uid=ref.uid,
        )
        self.recorder.post(claim, "Warning", reason, message)
