"""Events: what people should see with `kubectl describe`, of a claim or of the Node.

They are posted and forgotten: nobody waits for them, and nothing depends on them. Those about one object are
few (25, then one in five minutes), the same again is counted.
"""

from typing import Final, Literal

from dradriver.kube.events import EventRecorder
from dradriver.model.core.meta import ObjectReference
from dradriver.node.state.records import ClaimRef

__all__ = ["BURST", "Announcements", "Reason"]

BURST: Final = 25
"""As client-go has it."""

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
"""The reasons of all events; `docs/observe.md` says what they mean."""


class Announcements:
    """Warnings of a driver on a node.

    Args:
        recorder: writes them.
        node: the node's name.
    """

    def __init__(self, recorder: EventRecorder, node: str) -> None:
        self.recorder = recorder
        # kubectl looks for events of a node by its name in the place of the UID, as the kubelet writes them.
        self._node = ObjectReference(api_version="v1", kind="Node", name=node, uid=node)

    def of_node(self, reason: Reason, message: str) -> None:
        """Something is wrong on the node; from the loop."""
        self.recorder.post(self._node, "Warning", reason, f"driver {self.recorder.component}: {message}")

    def of_claim(self, ref: ClaimRef, reason: Reason, message: str) -> None:
        """Something is wrong with the claim; from the loop."""
        claim = ObjectReference(
            api_version="resource.k8s.io/v1",
            kind="ResourceClaim",
            namespace=ref.namespace,
            name=ref.name,
            uid=ref.uid,
        )
        self.recorder.post(claim, "Warning", reason, message)
