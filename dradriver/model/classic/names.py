"""The API group of classic DRA, its limits, and names of finalizers and conditions."""

from typing import Final

__all__ = [
    "API_VERSION",
    "DEALLOCATION_REQUESTED",
    "GROUP",
    "LEASE_ANNOTATION",
    "MAX_HANDLE_BYTES",
    "MAX_NODES",
    "MAX_POTENTIAL_NODES",
    "NODE_ANNOTATION",
    "RELEASE_ANNOTATION",
    "VERSION",
    "WITHDRAWAL_ANNOTATION",
    "finalizer",
]

GROUP: Final = "classic.dradriver.dev"
"""The API group, which is also the driver's name in opaque configuration. No kubelet plugin has this name."""

VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

MAX_POTENTIAL_NODES: Final = 128
"""Maximum number of potential nodes that the scheduler lists (KEP-3063, PodSchedulingContextSpec)."""

MAX_NODES: Final = 256
"""Maximum number of entries that the API accepts in a list of nodes (`PodSchedulingContextNodeListMaxSize`)."""

MAX_HANDLE_BYTES: Final = 16 * 1024
"""Maximum size of the data of one handle, in bytes (`ResourceHandleDataMaxSize`)."""

DEALLOCATION_REQUESTED: Final = "DeallocationRequested"
"""Condition of a claim's first device that stands for `status.deallocationRequested`."""

LEASE_ANNOTATION: Final = f"{GROUP}/lease"
"""Annotation of a `ControllerAllocation`: `namespace/name` of the Lease of the process that wrote it.

Two controllers of one name with Leases in different namespaces do not know of each other. With the annotation,
neither deallocates the claims of the other.
"""

NODE_ANNOTATION: Final = f"{GROUP}/node"
"""Annotation of a `ControllerAllocation` of an immediate claim: the only node on which it is allocated.

The record precedes `allocate`, which chooses the node, so its `spec` cannot have the node.
"""

RELEASE_ANNOTATION: Final = f"{GROUP}/release"
"""Annotation of a claim while its controller deallocates it: the version that the claim had before.

The write of the annotation changes the version, so an earlier write of an allocation, whose answer was lost,
cannot be carried out any more.
"""

WITHDRAWAL_ANNOTATION: Final = f"{GROUP}/withdrawal"
"""Annotation of a `ControllerAllocation` while its controller deallocates a claim that others have allocated.

Without it, the next process would take the allocation of the others for that of the controller.
"""


def finalizer(controller: str) -> str:
    """Return the finalizer that a controller adds to a claim before it allocates the claim.

    It stands for `status.controllerName` (KEP-3063): it names the controller, and stays when the class changes.

    Args:
        controller: the controller's name.
    """
    return f"{controller}/deletion-protection"
