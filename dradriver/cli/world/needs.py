"""Pods and claims that need devices."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from dradriver.cli.world.world import World
from dradriver.model.core.workload import Pod, PodClaim
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate

__all__ = ["Need", "list_needs", "pod_need"]


@dataclass
class Need:
    """A pod, or a claim alone, that needs devices.

    Attributes:
        claims: claims of the pod in order, without repeats, or the claim alone. If a claim does not exist yet,
            it is created in memory from its template.
        pod: the pod; None for a claim that no pod uses.
        missing: missing objects that prevent the allocation of devices.
    """

    claims: list[ResourceClaim] = field(default_factory=list)
    pod: Pod | None = None
    missing: list[str] = field(default_factory=list)


def list_needs(world: World) -> Iterator[Need]:
    """Yield each pod with its claims, then each unallocated claim that no pod uses.

    Args:
        world: the objects. Their order is kept.
    """
    used: set[str] = set()
    for pod in world.pods.values():
        need = pod_need(world, pod)
        used.update(claim.ref for claim in need.claims)
        yield need
    for ref, claim in world.claims.items():
        if ref not in used and claim.allocation is None:
            yield Need([claim])


def pod_need(world: World, pod: Pod) -> Need:
    """Return the pod with its claims. Missing claims are created in memory from their templates.

    Args:
        world: the objects that the pod refers to.
        pod: the pod.
    """
    claims: dict[str, ResourceClaim] = {}
    need = Need(pod=pod)
    for wanted in pod.spec.resource_claims:
        claim = _claim(world, pod, wanted)
        if isinstance(claim, str):
            need.missing.append(claim)
        elif claim is not None:
            claims[claim.ref] = claim
    need.claims = list(claims.values())
    return need


def _claim(world: World, pod: Pod, wanted: PodClaim) -> ResourceClaim | str | None:
    """Return a claim of the pod. None if the pod does not need it; a text if an object is missing."""
    namespace = pod.metadata.namespace
    if any(
        known.name == wanted.name and not known.resource_claim_name
        for known in pod.status.resource_claim_statuses
    ):
        return None  # the status records that no claim is needed
    if name := pod.claim_name(wanted):
        ref = f"{namespace}/{name}"
        return world.claims.get(ref) or f"claim {ref} does not exist"
    ref = f"{namespace}/{wanted.resource_claim_template_name}"
    template = world.templates.get(ref)
    if template is None:
        return f"claim template {ref} does not exist"
    return _create_claim(template, f"{pod.metadata.name}-{wanted.name}", namespace)


def _create_claim(template: ResourceClaimTemplate, name: str, namespace: str) -> ResourceClaim:
    meta = replace(template.spec.metadata, name=name, namespace=namespace)
    return ResourceClaim(metadata=meta, spec=template.spec.spec)
