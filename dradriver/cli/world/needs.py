"""Pods and claims that need devices."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from dradriver.cli.world.world import World
from dradriver.model.core.workload import Pod, PodClaim
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate

__all__ = ["Need", "needs", "pod_need"]


@dataclass
class Need:
    """A pod, or a claim alone, that needs devices.

    Attributes:
        claims: its claims in order, without repeats. Claims from a template are created here.
        pod: the pod; None for a claim that no pod uses.
        missing: reasons why it cannot be tried.
    """

    claims: list[ResourceClaim] = field(default_factory=list)
    pod: Pod | None = None
    missing: list[str] = field(default_factory=list)


def needs(world: World) -> Iterator[Need]:
    """Yield each pod with its claims, then each unallocated claim that no pod uses."""
    used: set[str] = set()
    for pod in world.pods.values():
        need = pod_need(world, pod)
        used.update(claim.ref for claim in need.claims)
        yield need
    for ref, claim in world.claims.items():
        if ref not in used and claim.allocation is None:
            yield Need([claim])


def pod_need(world: World, pod: Pod) -> Need:
    """Return the pod with its claims."""
    found: dict[str, ResourceClaim] = {}
    need = Need(pod=pod)
    for wanted in pod.spec.resource_claims:
        claim = _claim(world, pod, wanted)
        if isinstance(claim, str):
            need.missing.append(claim)
        elif claim is not None:
            found[claim.ref] = claim
    need.claims = list(found.values())
    return need


def _claim(world: World, pod: Pod, wanted: PodClaim) -> ResourceClaim | str | None:
    """Return one claim of the pod, None if the pod does not need it, or text that names the missing object."""
    namespace = pod.metadata.namespace
    if any(
        known.name == wanted.name and not known.resource_claim_name
        for known in pod.status.resource_claim_statuses
    ):
        return None  # recorded without a name, so no claim is needed
    if name := pod.claim_name(wanted):
        ref = f"{namespace}/{name}"
        return world.claims.get(ref) or f"claim {ref} does not exist"
    ref = f"{namespace}/{wanted.resource_claim_template_name}"
    template = world.templates.get(ref)
    if template is None:
        return f"claim template {ref} does not exist"
    return _made(template, f"{pod.metadata.name}-{wanted.name}", namespace)


def _made(template: ResourceClaimTemplate, name: str, namespace: str) -> ResourceClaim:
    meta = replace(template.spec.metadata, name=name, namespace=namespace)
    return ResourceClaim(metadata=meta, spec=template.spec.spec)
