"""What slices and claims show about attachments (KEP-5007): names of the SDK, and whether an allocation counts.

If an API server drops binding conditions, no scheduler waits for a device: the pod is bound at once. The
process of the pool driver then takes over the scheduler's part. It marks the devices in its slices, attaches
them on allocation, and decides in the claim's status whether the node may prepare the device:

| name                     | where                           | meaning                                   |
|--------------------------|---------------------------------|-------------------------------------------|
| `attachedOnAllocation`   | attribute of a published device | a node waits for one of the conditions    |
| `DRIVER/prepare-allowed` | condition in the claim's status | True: all binding conditions are True     |
| `DRIVER/prepare-refused` | condition in the claim's status | True: the device cannot be attached       |
"""

from typing import Final

from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim
from dradriver.model.resource.device import Device

__all__ = [
    "ATTACHED_ON_ALLOCATION",
    "finalizer",
    "is_attached_on_allocation",
    "is_given_up",
    "prepare_allowed",
    "prepare_refused",
]

ATTACHED_ON_ALLOCATION: Final = "attachedOnAllocation"
"""Attribute of a published device whose binding conditions the API server drops."""
_CLASSIC_FINALIZER: Final = "/deletion-protection"
"""Suffix of a finalizer on a claim that a controller allocates (KEP-3063), after the controller's name."""


def finalizer(driver: str) -> str:
    """Return the finalizer of claims that have attachments."""
    return f"{driver}/detach"


def prepare_allowed(driver: str) -> str:
    """Return the type of the condition that a pool driver sets when all binding conditions are True."""
    return f"{driver}/prepare-allowed"


def prepare_refused(driver: str) -> str:
    """Return the type of the condition that is set when a device cannot be attached."""
    return f"{driver}/prepare-refused"


def is_attached_on_allocation(device: Device) -> bool:
    """Return whether a pool driver attaches the device for a claim whose result has no binding conditions.

    Args:
        device: a device as it is published. If it has binding conditions, the API server stores them now, and
            dropped them when the claim was allocated.
    """
    return bool(device.binding_conditions) or device.attribute(ATTACHED_ON_ALLOCATION) is True


def is_given_up(claim: ResourceClaim) -> bool:
    """Return whether the claim is being deleted, and no component will deallocate it.

    kube-scheduler leaves the special claim of a failed attempt in this state (KEP-5004): it removes the
    finalizer `resource.kubernetes.io/delete-protection` and deletes the claim. Without this finalizer, no
    component removes the allocation. kube-scheduler does the same when the answer to a Bind is lost; in that
    case the pod runs with the claim. So the allocation counts until no pod in `reservedFor` has a node and is
    unfinished. A claim that a controller allocates (KEP-3063) never has that finalizer. It has a finalizer of
    that controller, and the controller deallocates the claim itself.
    """
    meta = claim.metadata
    return (
        meta.deletion_timestamp is not None
        and CLAIM_FINALIZER not in meta.finalizers
        and not any(each.endswith(_CLASSIC_FINALIZER) for each in meta.finalizers)
    )
