"""The special claim: the scheduler creates it for one pod's extended resources, and no other pod uses it.

The pod's spec does not name the special claim. The pod owns the claim, and an annotation marks the claim as
special. Right before the binding, the scheduler writes the claim's name to the pod's
`status.extendedResourceClaimStatus`, for the kubelet. The name is computed from the pod's UID, like the names
of claims from templates. So if the answer to a create is lost, the second create finds the first claim.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final

from dradriver.control.claims.pod_claims import generate_suffix, is_reserved_for
from dradriver.control.extended.requests import Requests
from dradriver.control.runtime.actions import DeleteClaim, Release, RemoveFinalizer
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.core.workload import ExtendedResourceClaim, Pod, RequestMapping
from dradriver.model.resource.claim import (
    CLAIM_FINALIZER,
    EXTENDED_CLAIM_ANNOTATION,
    Allocation,
    ClaimSpec,
    DeviceRequests,
    ResourceClaim,
)

__all__ = [
    "SpecialClaimPlan",
    "discard_step",
    "is_leftover",
    "is_reusable",
    "is_special_for",
    "new_special_claim",
    "special_claim_owners",
]

_MAX_BASE_LENGTH: Final = 58
"""The API server cuts `generateName` to this length before it adds five letters."""


@dataclass(frozen=True, slots=True)
class SpecialClaimPlan:
    """The special claim of a scheduling plan.

    Attributes:
        claim: the claim that will be created, or that an earlier attempt has created.
        mappings: the request of each container.
        allocation: the allocation to write. None if the claim is allocated already.
    """

    claim: ResourceClaim
    mappings: tuple[RequestMapping, ...]
    allocation: Allocation | None = None

    @property
    def status(self) -> ExtendedResourceClaim:
        """Return the entry of the pod's status that names the claim."""
        return ExtendedResourceClaim(
            resource_claim_name=self.claim.metadata.name, request_mappings=list(self.mappings)
        )


def new_special_claim(pod: Pod, requests: Requests, names: Collection[str]) -> ResourceClaim:
    """Return the special claim to create for a pod.

    Args:
        pod: the owner of the claim.
        requests: the requests for devices, and the request of each container.
        names: `namespace/name` of all claims. The new claim gets a different name.
    """
    meta = pod.metadata
    generate_name = f"{meta.name}-extended-resources-"
    base = generate_name[:_MAX_BASE_LENGTH]
    generated = (base + generate_suffix(f"{meta.uid}/extended resources/{attempt}") for attempt in count())
    name = next(name for name in generated if f"{meta.namespace}/{name}" not in names)
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    metadata = ObjectMeta(
        name=name,
        generate_name=generate_name,
        namespace=meta.namespace,
        annotations={EXTENDED_CLAIM_ANNOTATION: "true"},
        owner_references=[owner],
    )
    return ResourceClaim(metadata=metadata, spec=ClaimSpec(DeviceRequests(requests=list(requests.requests))))


def is_special_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether a claim was created for the extended resources of this pod, identified by its UID.

    Args:
        claim: any claim.
        pod: the possible owner.
    """
    owner = claim.metadata.controller
    return _is_special(claim) and owner is not None and owner.uid == pod.metadata.uid


def special_claim_owners(claim: ResourceClaim) -> Iterable[str]:
    """Return the UID of the pod that owns a special claim, for an index; empty for other claims.

    Args:
        claim: any claim.
    """
    owner = claim.metadata.controller
    return [owner.uid] if _is_special(claim) and owner is not None else []


def _is_special(claim: ResourceClaim) -> bool:
    return claim.metadata.annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true"


def is_leftover(claim: ResourceClaim) -> bool:
    """Return whether the scheduler can use, or must release or delete, a special claim of an earlier attempt.

    The result is False if the claim is being deleted and has no allocation, reservation or finalizer of the
    scheduler. Such a claim only waits for drivers that still have to detach devices.

    Args:
        claim: a special claim.
    """
    return claim.metadata.deletion_timestamp is None or discard_step(claim) is not None


def is_reusable(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether a special claim of an earlier attempt is allocated and reserved, with its finalizer.

    This function does not check whether the claim's requests still fit a node.

    Args:
        claim: a special claim of the pod.
        pod: the pod that is scheduled again.
    """
    meta = claim.metadata
    return (
        meta.deletion_timestamp is None
        and CLAIM_FINALIZER in meta.finalizers
        and claim.allocation is not None
        and is_reserved_for(claim, pod)
    )


def discard_step(claim: ResourceClaim) -> Release | RemoveFinalizer | DeleteClaim | None:
    """Return the next write that removes a special claim: release it, remove its finalizer, or delete it.

    The claim must be released first: if a driver has attached its devices, the driver's finalizer keeps the
    claim until the allocation is removed.

    Args:
        claim: the current version of a special claim.

    Returns:
        The write; None if no write of the scheduler is left.
    """
    if claim.allocation is not None or claim.status.reserved_for:
        return Release(claim, deallocate=True)
    if CLAIM_FINALIZER in claim.metadata.finalizers:
        return RemoveFinalizer(claim)
    return DeleteClaim(claim) if claim.metadata.deletion_timestamp is None else None
