"""Decide on claims: create them from templates, release them when their pods end, delete them with their pods.

Two pure functions, one for a pod and one for a claim, return the next step. They do what
`pkg/controller/resourceclaim` of Kubernetes 1.37 does, with one difference: the API server does not generate a
random name for the claim. The name is computed from the UID of the pod and the name of the pod's claim. If the
answer to a create is lost (a crash, a broken connection), the second create finds the first claim by its name.
So two claims are never created for one entry of a pod's `resourceClaims`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from dradriver.control.claims.pod_claims import (
    consumer_of,
    generate_suffix,
    is_done,
    is_made_for,
    is_reserved_for,
    pod_reference,
)
from dradriver.control.classic.values import explain_unreservable
from dradriver.control.runtime.actions import (
    CreateClaim,
    DeleteClaim,
    EmitEvent,
    LookUpPod,
    NextAction,
    RecordClaims,
    Release,
    RemoveFinalizer,
    Reserve,
    Step,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.core.workload import Pod, PodClaim
from dradriver.model.resource.claim import (
    CLAIM_FINALIZER,
    POD_CLAIM_ANNOTATION,
    ConsumerReference,
    ResourceClaim,
    ResourceClaimTemplate,
)

__all__ = ["Objects", "claim_step", "generated_claim", "pod_step"]

_LONGEST_BASE: Final = 57
"""A generated name has at most 63 characters, including a hyphen and five letters."""
_DONE: Final = Step(NextAction.DONE)


@dataclass(frozen=True)
class Objects:
    """The objects that the decisions read. Names are `namespace/name`.

    Attributes:
        pods: all pods.
        claims: all claims.
        templates: all templates.
        owned: takes the UID of a pod, and returns the claims that the pod owns.
        deleted_pods: UIDs of pods that are known to be deleted.
        find_record: takes a claim, and returns the record of its controller (KEP-3063); None if there is none.
    """

    pods: Mapping[str, Pod]
    claims: Mapping[str, ResourceClaim]
    templates: Mapping[str, ResourceClaimTemplate]
    owned: Callable[[str], Collection[ResourceClaim]]
    deleted_pods: Collection[str] = ()
    find_record: Callable[[ResourceClaim], ControllerAllocation | None] = lambda _: None


def pod_step(pod: Pod, objects: Objects) -> Step:
    """Return the next write for a pod's claims: create them, name them in the pod's status, or reserve them."""
    if pod.metadata.deletion_timestamp is not None or pod.finished:
        return _DONE
    names: dict[str, str] = {}
    for wanted in pod.spec.resource_claims:
        if not wanted.resource_claim_template_name or _needs_no_claim(pod, wanted):
            continue
        claim = _find_claim(pod, wanted, objects)
        if claim is None:
            return _create_step(pod, wanted, objects)
        names[wanted.name] = claim.metadata.name
    recorded = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
    if any(recorded.get(name) != claim_name for name, claim_name in names.items()):
        return Step(NextAction.CONTINUE, RecordClaims(pod, names))
    return _reserve_step(pod, objects) if pod.spec.node_name else _DONE


def _needs_no_claim(pod: Pod, wanted: PodClaim) -> bool:
    statuses = pod.status.resource_claim_statuses
    return any(s.name == wanted.name and s.resource_claim_name is None for s in statuses)


def _find_claim(pod: Pod, wanted: PodClaim, objects: Objects) -> ResourceClaim | None:
    """Return the claim that the pod's status names, or one that it does not name yet because of a crash."""
    name = pod.claim_name(wanted)
    named = objects.claims.get(f"{pod.metadata.namespace}/{name}") if name else None
    if named is not None and is_made_for(named, pod):
        return named
    candidates = (
        claim
        for claim in objects.owned(pod.metadata.uid)
        if claim.metadata.annotations.get(POD_CLAIM_ANNOTATION) == wanted.name and is_made_for(claim, pod)
    )
    return min(candidates, key=lambda claim: claim.metadata.name, default=None)


def _create_step(pod: Pod, wanted: PodClaim, objects: Objects) -> Step:
    template = objects.templates.get(f"{pod.metadata.namespace}/{wanted.resource_claim_template_name}")
    if template is None:
        problem = f'resource claim template "{wanted.resource_claim_template_name}" not found'
        message = f"PodResourceClaim {wanted.name}: {problem}"
        return Step(
            NextAction.WAIT, EmitEvent(pod_reference(pod), "Warning", "FailedResourceClaimCreation", message)
        )
    for attempt in count():
        claim = generated_claim(pod, wanted, template, attempt)
        if claim.ref not in objects.claims:
            return Step(NextAction.CONTINUE, CreateClaim(claim))
        # Another claim has the name: try the next name.
    raise AssertionError("unreachable: the number of claims is finite")


def generated_claim(
    pod: Pod, wanted: PodClaim, template: ResourceClaimTemplate, attempt: int = 0
) -> ResourceClaim:
    """Return the claim that a template defines for a pod; equal arguments give equal names."""
    base = f"{pod.metadata.name}-{wanted.name}-"
    if len(base) > _LONGEST_BASE:
        # Both names are cut in proportion to their lengths, so that a part of each name is left.
        kept = [name[: len(name) * _LONGEST_BASE // len(base)] for name in (pod.metadata.name, wanted.name)]
        base = "-".join(kept) + "-"
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    template_metadata = template.spec.metadata
    metadata = ObjectMeta(
        name=base + generate_suffix(f"{pod.metadata.uid}/{wanted.name}/{attempt}"),
        generate_name=base,
        namespace=pod.metadata.namespace,
        labels=template_metadata.labels,
        annotations={**template_metadata.annotations, POD_CLAIM_ANNOTATION: wanted.name},
        owner_references=[owner],
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def _reserve_step(pod: Pod, objects: Objects) -> Step:
    """Return the step that reserves allocated claims for a pod whose node was set without the scheduler."""
    for wanted in pod.spec.resource_claims:
        claim = objects.claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        if claim is None or claim.allocation is None or is_reserved_for(claim, pod):
            continue
        if explain_unreservable(claim, pod, objects.find_record(claim)) is not None:
            continue  # the claim is not shareable, or must be deallocated first (KEP-3063)
        if wanted.resource_claim_name or is_made_for(claim, pod):
            return Step(NextAction.CONTINUE, Reserve(claim, consumer_of(pod)))
    return _DONE


def claim_step(claim: ResourceClaim, objects: Objects) -> Step:
    """Return the next write for a claim: remove consumers, deallocate, remove the finalizer, or delete."""
    remaining: list[ConsumerReference] = []
    for consumer in claim.status.reserved_for:
        is_needed = _is_needed(claim, consumer, objects)
        if is_needed is None:
            return Step(NextAction.CONTINUE, LookUpPod(claim.metadata.namespace, consumer.name, consumer.uid))
        if is_needed:
            remaining.append(consumer)
    has_finalizer = CLAIM_FINALIZER in claim.metadata.finalizers
    if len(remaining) < len(claim.status.reserved_for):
        # The allocation is removed with its last consumer, so that the next consumer may run on another node.
        release = Release(claim, tuple(remaining), deallocate=not remaining and has_finalizer)
        return Step(NextAction.CONTINUE, release)
    if remaining:
        return _DONE
    if claim.metadata.deletion_timestamp is not None:
        return _release_step(claim) if has_finalizer else _DONE
    return Step(NextAction.CONTINUE, DeleteClaim(claim)) if _has_outlived_its_pod(claim, objects) else _DONE


def _is_needed(claim: ResourceClaim, consumer: ConsumerReference, objects: Objects) -> bool | None:
    """Return whether a consumer still needs the claim; None if its pod must be read from the API server."""
    if consumer.resource != "pods" or consumer.api_group:
        return True  # the controller of this kind of consumer must remove it
    if consumer.uid in objects.deleted_pods:
        return False
    pod = objects.pods.get(f"{claim.metadata.namespace}/{consumer.name}")
    if pod is None:
        return None  # the cache may be stale, and a pod that is being scheduled must keep its claim
    return pod.metadata.uid == consumer.uid and not is_done(pod)


def _release_step(claim: ResourceClaim) -> Step:
    action = Release(claim, deallocate=True) if claim.allocation is not None else RemoveFinalizer(claim)
    return Step(NextAction.CONTINUE, action)


def _has_outlived_its_pod(claim: ResourceClaim, objects: Objects) -> bool:
    """Return whether the claim was created for a pod that is known not to run again.

    A pod that is not in the cache may exist, because the cache may be stale. So the result is False, and if the
    pod is gone, the garbage collector deletes the claim.
    """
    owner = claim.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return False
    pod = objects.pods.get(f"{claim.metadata.namespace}/{owner.name}")
    return pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))
