"""Extended resources of pods (KEP-5004): served by device plugins, or by devices through a special claim."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator import Features
from dradriver.cli.world import World
from dradriver.control.extended import (
    ClassesByResource,
    Unservable,
    amounts_of,
    completed,
    is_special_for,
    share_of,
    special_for,
)
from dradriver.control.scheduler.snapshot import holds
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["ExtendedResources", "SpecialClaim", "serving_classes", "special_claims"]


def serving_classes(world: World, features: Features) -> ClassesByResource:
    """Return the classes by the extended resources that they serve; empty while DRAExtendedResource is off."""
    return ClassesByResource.of(world.classes.values() if features.extended_resources else ())


def special_claims(world: World, pod: Pod, features: Features) -> Sequence[ResourceClaim]:
    """Return the claims that a scheduler has created for the pod; empty while DRAExtendedResource is off."""
    found = world.claims.values() if features.extended_resources else ()
    return [claim for claim in found if is_special_for(claim, pod)]


@dataclass(frozen=True, slots=True)
class SpecialClaim:
    """The devices that the pod would request on some nodes.

    Attributes:
        claim: the special claim; None if device plugins serve all resources.
        nodes: names of the nodes.
    """

    claim: ResourceClaim | None
    nodes: frozenset[str]


class ExtendedResources:
    """Decides what serves extended resources on each node, while pods are placed one after the other."""

    def __init__(self, world: World, features: Features) -> None:
        self._nodes = world.places()
        self._classes = serving_classes(world, features)
        self._left = {
            pod.ref: claim
            for claim in world.claims.values()
            if features.extended_resources and claim.metadata.owner_references
            for pod in _owners(world, claim)
        }
        self._names: Collection[str] = world.claims
        self._taken: dict[str, Counter[str]] = {}
        for pod in world.pods.values():
            if holds(pod):
                self.bind(pod, pod.spec.node_name)

    def bind(self, pod: Pod, node: str) -> None:
        """Count the pod's extended resources on the node from now on."""
        if amounts := amounts_of(completed(pod)):
            self._taken.setdefault(node, Counter()).update(amounts)

    def asks(self, pod: Pod | None) -> bool:
        """Return whether the pod requests extended resources."""
        return pod is not None and bool(amounts_of(completed(pod)))

    def on_node(self, pod: Pod | None, name: str) -> ResourceClaim | str | None:
        """Return the special claim of the pod on a node, or as a string the reason why it cannot run there."""
        return self._on_node(pod, name) if pod is not None else None

    def choices(self, pod: Pod) -> Iterator[SpecialClaim]:
        """Yield the nodes that can run the pod, grouped by the devices that it requests there."""
        alike: dict[object, tuple[ResourceClaim | None, list[str]]] = {}
        for name in self._nodes:
            found = self._on_node(pod, name)
            if not isinstance(found, str):
                asked = tuple(request.name for request in found.spec.devices.requests) if found else ()
                alike.setdefault(asked, (found, []))[1].append(name)
        for claim, names in alike.values():
            yield SpecialClaim(claim, frozenset(names))

    def _on_node(self, pod: Pod, name: str) -> ResourceClaim | str | None:
        pod = completed(pod)
        amounts = amounts_of(pod)
        if not amounts:
            return None
        taken: Mapping[str, int] = self._taken.get(name, {})
        try:
            share = share_of(pod, amounts, self._nodes[name], taken, self._classes)
        except Unservable as problem:
            return str(problem)
        if share.insufficient:
            return ", ".join(f"Insufficient {resource}" for resource in share.insufficient)
        if not share.requests.requests:
            return None
        return self._left.get(pod.ref) or special_for(pod, share.requests, self._names)


def _owners(world: World, claim: ResourceClaim) -> Iterable[Pod]:
    refs = (f"{claim.metadata.namespace}/{owner.name}" for owner in claim.metadata.owner_references)
    return (pod for ref in refs if (pod := world.pods.get(ref)) is not None and is_special_for(claim, pod))
