"""Find the claims that belong to a pod, by the rules of Kubernetes."""

import hashlib
from collections.abc import Mapping
from typing import Final

from dradriver.model.core.meta import ObjectReference
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ConsumerReference, ResourceClaim

__all__ = [
    "ClaimNotCreated",
    "ClaimUnusable",
    "claims_of",
    "consumer_of",
    "generate_suffix",
    "is_done",
    "is_made_for",
    "is_reserved_for",
    "pod_reference",
    "used_names",
    "used_names_with_special",
]

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5


class ClaimUnusable(Exception):  # noqa: N818 - a finding
    """A claim of the pod cannot be used now; the message is the reason."""


class ClaimNotCreated(ClaimUnusable):
    """A claim of the pod was not created from its template yet."""


def consumer_of(pod: Pod) -> ConsumerReference:
    """Return the pod as an entry of `reservedFor`."""
    return ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def pod_reference(pod: Pod) -> ObjectReference:
    """Return the reference to the pod for an event."""
    meta = pod.metadata
    return ObjectReference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the claim is reserved for the pod, so that the pod may use it."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the claim was created for this pod: the claim's owner has the pod's UID."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def is_done(pod: Pod) -> bool:
    """Return whether the pod no longer needs its claims: it ended, or is being deleted and has no node."""
    return pod.finished or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def used_names(pod: Pod) -> list[str]:
    """Return `namespace/name` of the claims that the pod is known to use."""
    names = (pod.claim_name(claim) for claim in pod.spec.resource_claims)
    return [f"{pod.metadata.namespace}/{name}" for name in dict.fromkeys(names) if name]


def used_names_with_special(pod: Pod) -> list[str]:
    """Return `namespace/name` of the claims that the pod is known to use, with its special claim (KEP-5004)."""
    special = pod.status.extended_resource_claim_status
    return [*used_names(pod), *([f"{pod.metadata.namespace}/{special.resource_claim_name}"] if special else ())]


def claims_of(pod: Pod, claims: Mapping[str, ResourceClaim]) -> list[ResourceClaim]:
    """Return the pod's claims in the order of its spec, without duplicates.

    Args:
        pod: the pod.
        claims: all claims by `namespace/name`.

    Raises:
        ClaimNotCreated: a claim was not created from its template yet.
        ClaimUnusable: a claim is missing, being deleted, or made for another pod.
    """
    by_uid: dict[str, ResourceClaim] = {}
    for wanted in pod.spec.resource_claims:
        recorded = {status.name for status in pod.status.resource_claim_statuses}
        name = pod.claim_name(wanted)
        if name is None:
            if wanted.name in recorded:
                continue  # an entry without a name means that no claim is needed
            raise ClaimNotCreated(f'pod "{pod.ref}": ResourceClaim not created yet')
        claim = claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            raise ClaimUnusable(f'resourceclaim "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimUnusable(f'resourceclaim "{name}" is being deleted')
        if not wanted.resource_claim_name and not is_made_for(claim, pod):
            raise ClaimUnusable(f"ResourceClaim {claim.ref} was not created for Pod {pod.ref}")
        by_uid[claim.metadata.uid] = claim
    return list(by_uid.values())


def generate_suffix(seed: str) -> str:
    """Return the last five letters of a generated name; equal seeds give equal letters.

    If the answer to a create is lost, the second create finds the first object by its name. With
    `generateName`, the letters would be random.
    """
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    return "".join(
        _LETTERS[number // len(_LETTERS) ** digit % len(_LETTERS)] for digit in range(_SUFFIX_LENGTH)
    )
