"""The special claim: created by the scheduler for one pod's extended resources, and never used by another.

It has no name in the pod's spec. Its pod owns it, and an annotation marks it. When only the binding can still
fail, the pod's `status.extendedResourceClaimStatus` names it for the kubelet. Its name follows from its pod's
UID, like the names of claims from templates. After a lost answer to a create, the second create finds the first
claim.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final

from dradriver.control.claims.generated_names import suffix
from dradriver.control.claims.pod_claims import reserved_for
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

__all__ = ["Special", "discard_step", "is_left", "is_special_for", "owners_of", "special_for", "usable_again"]

_LONGEST_BASE: Final = 58
"""The API server cuts `generateName` to this length before it adds five letters."""


@dataclass(frozen=True, slots=True)
class Special:
    """The special claim of a plan.

    Attributes:
        claim: the claim that will be created, or that an earlier attempt left.
        mappings: the request of each container.
        allocation: the allocation to write; None for a claim that is allocated already.
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


def special_for(pod: Pod, requests: Requests, taken: Collection[str]) -> ResourceClaim:
    """Return the special claim of a pod as it will be created.

    Args:
        pod: its owner.
        requests: its requests.
        taken: `namespace/name` of all claims.
    """
    meta = pod.metadata
    generate_name = f"{meta.name}-extended-resources-"
    base = generate_name[:_LONGEST_BASE]
    names = (base + suffix(f"{meta.uid}/extended resources/{attempt}") for attempt in count())
    name = next(name for name in names if f"{meta.namespace}/{name}" not in taken)
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
    """Return whether a claim was created for the extended resources of this pod (same UID)."""
    owner = claim.metadata.controller
    return _is_special(claim) and owner is not None and owner.uid == pod.metadata.uid


def owners_of(claim: ResourceClaim) -> Iterable[str]:
    """Return the UID of the pod whose special claim it is, or nothing. A trait for an index."""
    owner = claim.metadata.controller
    return [owner.uid] if _is_special(claim) and owner is not None else []


def _is_special(claim: ResourceClaim) -> bool:
    return claim.metadata.annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true"


def is_left(claim: ResourceClaim) -> bool:
    """Return whether a special claim of an earlier attempt still holds something, or can be used or deleted.

    A claim that is being deleted and holds nothing only waits until a driver has detached its devices.
    """
    return claim.metadata.deletion_timestamp is None or discard_step(claim) is not None


def usable_again(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether a special claim of an earlier attempt is complete, so that only later writes are missing.

    Whether its requests still fit depends on the node.
    """
    meta = claim.metadata
    return (
        meta.deletion_timestamp is None
        and CLAIM_FINALIZER in meta.finalizers
        and claim.allocation is not None
        and reserved_for(claim, pod)
    )


def discard_step(claim: ResourceClaim) -> Release | RemoveFinalizer | DeleteClaim | None:
    """Return the next write that removes a special claim: release, then drop the finalizer, then delete.

    The release comes first, because a driver that attached its devices holds the claim until the allocation is
    gone.
    """
    if claim.allocation is not None or claim.status.reserved_for:
        return Release(claim, deallocate=True)
    if CLAIM_FINALIZER in claim.metadata.finalizers:
        return RemoveFinalizer(claim)
    return DeleteClaim(claim) if claim.metadata.deletion_timestamp is None else None
