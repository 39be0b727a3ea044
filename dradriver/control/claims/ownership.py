"""The life of claims: created from templates, released when their pods end, deleted with them.

Two pure functions, one for a pod and one for a claim, return the next step. They do the same as
`pkg/controller/resourceclaim` of Kubernetes 1.37, with one difference: the API server does not draw the claim's
name. The name follows from the UID of the pod and the name of the pod's claim. After a lost answer to a create
(a crash, a cut connection), the second create finds the first claim by its name. So there are never two claims
for one claim of a pod.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from dradriver.control.claims.generated_names import suffix
from dradriver.control.claims.pod_claims import consumer_of, is_done, made_for, pod_reference, reserved_for
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
    """The part of the cluster that these decisions read. Names are `namespace/name`.

    Attributes:
        pods: all pods.
        claims: all claims.
        templates: all templates.
        owned: returns the claims that a pod owns, by its UID.
        gone: UIDs of pods that are known not to exist any more.
    """

    pods: Mapping[str, Pod]
    claims: Mapping[str, ResourceClaim]
    templates: Mapping[str, ResourceClaimTemplate]
    owned: Callable[[str], Collection[ResourceClaim]]
    gone: Collection[str] = ()


def pod_step(pod: Pod, objects: Objects) -> Step:
    """Return the next write for a pod's claims: create them, name them in its status, reserve them."""
    if pod.metadata.deletion_timestamp is not None or pod.finished:
        return _DONE
    names: dict[str, str] = {}
    for wanted in pod.spec.resource_claims:
        if not wanted.resource_claim_template_name or _not_needed(pod, wanted):
            continue
        claim = _made(pod, wanted, objects)
        if claim is None:
            return _make(pod, wanted, objects)
        names[wanted.name] = claim.metadata.name
    recorded = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
    if any(recorded.get(name) != claim_name for name, claim_name in names.items()):
        return Step(NextAction.AGAIN, RecordClaims(pod, names))
    return _reserve(pod, objects) if pod.spec.node_name else _DONE


def _not_needed(pod: Pod, wanted: PodClaim) -> bool:
    statuses = pod.status.resource_claim_statuses
    return any(s.name == wanted.name and s.resource_claim_name is None for s in statuses)


def _made(pod: Pod, wanted: PodClaim, objects: Objects) -> ResourceClaim | None:
    """Return the pod's existing claim: the one that its status names, or one that a crash left unnamed."""
    name = pod.claim_name(wanted)
    named = objects.claims.get(f"{pod.metadata.namespace}/{name}") if name else None
    if named is not None and made_for(named, pod):
        return named
    mine = (
        claim
        for claim in objects.owned(pod.metadata.uid)
        if claim.metadata.annotations.get(POD_CLAIM_ANNOTATION) == wanted.name and made_for(claim, pod)
    )
    return min(mine, key=lambda claim: claim.metadata.name, default=None)


def _make(pod: Pod, wanted: PodClaim, objects: Objects) -> Step:
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
            return Step(NextAction.AGAIN, CreateClaim(claim))
        # A claim that is not the pod's has the name: try the next one.
    raise AssertionError("unreachable: there are only so many claims")


def generated_claim(
    pod: Pod, wanted: PodClaim, template: ResourceClaimTemplate, attempt: int = 0
) -> ResourceClaim:
    """Return the claim that a template defines for a pod. The same arguments give the same name."""
    base = f"{pod.metadata.name}-{wanted.name}-"
    if len(base) > _LONGEST_BASE:
        # Both names are cut, each in proportion to its length, so that a part of each is left.
        kept = [name[: len(name) * _LONGEST_BASE // len(base)] for name in (pod.metadata.name, wanted.name)]
        base = "-".join(kept) + "-"
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    made_from = template.spec.metadata
    metadata = ObjectMeta(
        name=base + suffix(f"{pod.metadata.uid}/{wanted.name}/{attempt}"),
        generate_name=base,
        namespace=pod.metadata.namespace,
        labels=made_from.labels,
        annotations={**made_from.annotations, POD_CLAIM_ANNOTATION: wanted.name},
        owner_references=[owner],
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def _reserve(pod: Pod, objects: Objects) -> Step:
    """Return the step that reserves allocated claims for a pod whose node was set without a scheduler."""
    for wanted in pod.spec.resource_claims:
        claim = objects.claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        if claim is None or claim.allocation is None or reserved_for(claim, pod):
            continue
        if wanted.resource_claim_name or made_for(claim, pod):
            return Step(NextAction.AGAIN, Reserve(claim, consumer_of(pod)))
    return _DONE


def claim_step(claim: ResourceClaim, objects: Objects) -> Step:
    """Return the next write for a claim: remove done consumers, deallocate, drop the finalizer, or delete."""
    remaining: list[ConsumerReference] = []
    for consumer in claim.status.reserved_for:
        needs = _needs(claim, consumer, objects)
        if needs is None:
            return Step(NextAction.AGAIN, LookUpPod(claim.metadata.namespace, consumer.name, consumer.uid))
        if needs:
            remaining.append(consumer)
    protected = CLAIM_FINALIZER in claim.metadata.finalizers
    if len(remaining) < len(claim.status.reserved_for):
        # The allocation is removed with its last consumer, so that the next one is not tied to the same node.
        release = Release(claim, tuple(remaining), deallocate=not remaining and protected)
        return Step(NextAction.AGAIN, release)
    if remaining:
        return _DONE
    if claim.metadata.deletion_timestamp is not None:
        return _let_go(claim) if protected else _DONE
    return Step(NextAction.AGAIN, DeleteClaim(claim)) if _outlived_its_pod(claim, objects) else _DONE


def _needs(claim: ResourceClaim, consumer: ConsumerReference, objects: Objects) -> bool | None:
    """Return whether a consumer still needs the claim; None when the API server has to be asked."""
    if consumer.resource != "pods" or consumer.api_group:
        return True  # an unknown kind of consumer: another controller removes it
    if consumer.uid in objects.gone:
        return False
    pod = objects.pods.get(f"{claim.metadata.namespace}/{consumer.name}")
    if pod is None:
        return None  # the cache may lag: a pod that is being scheduled must keep its claim
    return pod.metadata.uid == consumer.uid and not is_done(pod)


def _let_go(claim: ResourceClaim) -> Step:
    action = Release(claim, deallocate=True) if claim.allocation is not None else RemoveFinalizer(claim)
    return Step(NextAction.AGAIN, action)


def _outlived_its_pod(claim: ResourceClaim, objects: Objects) -> bool:
    """Return whether the claim was made for a pod that is known not to run again.

    An unknown pod is left to the garbage collector, because the cache may not have read it yet.
    """
    owner = claim.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return False
    pod = objects.pods.get(f"{claim.metadata.namespace}/{owner.name}")
    return pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))
