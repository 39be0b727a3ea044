"""Write Kubernetes events of a claim or of the Node, which users see with `kubectl describe`.

Events are best effort: no other work waits for them or depends on them. Repeats are aggregated. Rate limit: a
burst of 25 per object, then one per 5 minutes.
"""

from typing import Final, Literal

from dradriver.kube.events import EventRecorder
from dradriver.model.core.meta import ObjectReference
from dradriver.node.state.records import ClaimRef

__all__ = ["BURST", "Reason", "WarningEvents"]

BURST: Final = 25
"""Maximum burst of events per object, as in client-go."""

Reason = Literal[
    "DeviceInUse",
    "DriverWarning",
    "InvalidConfig",
    "UnprepareFailed",
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


class WarningEvents:
    """Writes warning events of a driver on a node.

    Args:
        recorder: writes the events.
        node: the node's name.
    """

    def __init__(self, recorder: EventRecorder, node: str) -> None:
        self.recorder = recorder
        # kubectl selects a node's events by the node's name in the UID field, because the kubelet writes it
        # there.
        self._node = ObjectReference(api_version="v1", kind="Node", name=node, uid=node)

    def warn_of_node(self, reason: Reason, message: str) -> None:
        """Write a warning about the node; must be called on the event loop."""
        self.recorder.post(self._node, "Warning", reason, f"driver {self.recorder.component}: {message}")

    def warn_of_claim(self, ref: ClaimRef, reason: Reason, message: str) -> None:
        """Write a warning about a claim; must be called on the event loop."""
        claim = ObjectReference(
            api_version="resource.k8s.io/v1",
            kind="ResourceClaim",
            namespace=ref.namespace,
            name=ref.name,
            uid=ref.uid,
        )
        self.recorder.post(claim, "Warning", reason, message)
