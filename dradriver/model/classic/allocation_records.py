"""`ControllerAllocation`: a controller's own record of one allocation, which users cannot write.

The allocation and the handles in the claim vanish together when somebody clears the allocation. So the
controller records what it has allocated in this object, before it changes anything else. The scheduler requests
the deallocation of an allocation without devices here, because a condition needs a device.
"""

import msgspec

from dradriver.model.classic.names import NODE_ANNOTATION, WITHDRAWAL_ANNOTATION
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value

__all__ = ["AllocationRequest", "ControllerAllocation", "RecordedAllocation"]


class RecordedAllocation(Value, frozen=True, kw_only=True):
    """What the controller allocates, as it was recorded before the first side effect.

    Attributes:
        claim_name: the name of the claim. The claim and the `ControllerAllocation` are in one namespace.
        claim_uid: the UID of the claim. The `ControllerAllocation` has this UID as its name.
        controller_name: the controller.
        node: the node for which it allocates; empty for a claim that is allocated immediately.
    """

    claim_name: str
    claim_uid: str = msgspec.field(name="claimUID")
    controller_name: str
    node: str = ""


class AllocationRequest(Value, frozen=True, kw_only=True):
    """What the scheduler asks for.

    Attributes:
        deallocation_requested: whether the controller must deallocate the claim.
    """

    deallocation_requested: bool = False


class ControllerAllocation(Value, frozen=True, kw_only=True):
    """The record of one allocation. Its name is the UID of the claim."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: RecordedAllocation = RecordedAllocation(claim_name="", claim_uid="", controller_name="")
    status: AllocationRequest = AllocationRequest()

    @property
    def ref(self) -> str:
        """Return `namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def node(self) -> str:
        """Return the node for which it was allocated; empty if that is not one node, or not known yet."""
        return self.spec.node or self.metadata.annotations.get(NODE_ANNOTATION, "")

    @property
    def is_withdrawn(self) -> bool:
        """Return whether others have allocated the claim, so that the controller must release it."""
        return WITHDRAWAL_ANNOTATION in self.metadata.annotations

    @property
    def claim_ref(self) -> str:
        """Return `namespace/name` of the claim."""
        return f"{self.metadata.namespace}/{self.spec.claim_name}"
