"""Which claims belong to a pod, by the rules of Kubernetes."""

from collections.abc import Mapping

from dradriver.model.core.meta import ObjectReference
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ConsumerReference, ResourceClaim

__all__ = [
    "NotCreatedYet",
    "Unusable",
    "claims_of",
    "consumer_of",
    "is_done",
    "made_for",
    "pod_reference",
    "reserved_for",
    "used_names",
]


class Unusable(Exception):  # noqa: N818 - a finding, not an error of ours
    """A claim of the pod can't be used now. The text has the reason."""


class NotCreatedYet(Unusable):
    """The claim will be created from its template."""


def consumer_of(pod: Pod) -> ConsumerReference:
    """Return the pod as an entry of `reservedFor`."""
    return ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def pod_reference(pod: Pod) -> ObjectReference:
    """Return the pod as an event refers to it."""
    meta = pod.metadata
    return ObjectReference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)


def reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the pod may use the claim now."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the claim was made from a template for this very pod."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def is_done(pod: Pod) -> bool:
    """Return whether the pod no longer needs its claims: it ended, or was deleted before it had a node."""
    return pod.finished or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def used_names(pod: Pod) -> list[str]:
    """Return `namespace/name` of the claims that the pod is known to use."""
    names = (pod.claim_name(claim) for claim in pod.spec.resource_claims)
    return [f"{pod.metadata.namespace}/{name}" for name in dict.fromkeys(names) if name]


def claims_of(pod: Pod, claims: Mapping[str, ResourceClaim]) -> list[ResourceClaim]:
    """Return the pod's claims, each once, in its order.

    Args:
        pod: the pod.
        claims: all claims by `namespace/name`.

    Raises:
        NotCreatedYet: a claim is still to be created from its template.
        Unusable: a claim is missing, being deleted, or made for another pod.
    """
    found: dict[str, ResourceClaim] = {}
    for wanted in pod.spec.resource_claims:
        recorded = {status.name for status in pod.status.resource_claim_statuses}
        name = pod.claim_name(wanted)
        if name is None:
            if wanted.name in recorded:
                continue  # an entry without a name: no claim is needed
            raise NotCreatedYet(f'pod "{pod.ref}": ResourceClaim not created yet')
        claim = claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            raise Unusable(f'resourceclaim "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise Unusable(f'resourceclaim "{name}" is being deleted')
        if not wanted.resource_claim_name and not made_for(claim, pod):
            raise Unusable(f"ResourceClaim {claim.ref} was not created for Pod {pod.ref}")
        found[claim.metadata.uid] = claim
    return list(found.values())
