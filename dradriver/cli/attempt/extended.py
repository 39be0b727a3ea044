"""Finds what serves extended resources of pods (KEP-5004): device plugins, or devices of a special claim."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator import Features
from dradriver.cli.world import World
from dradriver.control.extended import (
    ClassesByResource,
    Unservable,
    complete_requests,
    is_special_for,
    new_special_claim,
    requested_amounts,
    split_resources,
)
from dradriver.control.scheduler.snapshot import counts_on_node
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["ExtendedResources", "SpecialClaim", "serving_classes", "special_claims"]


def serving_classes(world: World, features: Features) -> ClassesByResource:
    """Return the classes by the extended resources that they serve; empty if DRAExtendedResource is off.

    Args:
        world: the world with the classes.
        features: the enabled features.
    """
    return ClassesByResource.of(world.classes.values() if features.extended_resources else ())


def special_claims(world: World, pod: Pod, features: Features) -> Sequence[ResourceClaim]:
    """Return the special claims that a scheduler has created for the pod; empty if DRAExtendedResource is off.

    Args:
        world: the world with the claims to search.
        pod: the pod.
        features: the enabled features.
    """
    claims = world.claims.values() if features.extended_resources else ()
    return [claim for claim in claims if is_special_for(claim, pod)]


@dataclass(frozen=True, slots=True)
class SpecialClaim:
    """The devices that a pod requests for its extended resources on some nodes.

    Attributes:
        claim: the special claim; None if device plugins serve all resources.
        nodes: names of the nodes.
    """

    claim: ResourceClaim | None
    nodes: frozenset[str]


class ExtendedResources:
    """Finds what serves extended resources on each node. Pods are placed one after another."""

    def __init__(self, world: World, features: Features) -> None:
        self._nodes = world.known_nodes()
        self._classes = serving_classes(world, features)
        self._leftover_claims = {
            pod.ref: claim
            for claim in world.claims.values()
            if features.extended_resources and claim.metadata.owner_references
            for pod in _owners(world, claim)
        }
        self._claim_refs: Collection[str] = world.claims
        self._used: dict[str, Counter[str]] = {}
        for pod in world.pods.values():
            if counts_on_node(pod):
                self.bind(pod, pod.spec.node_name)

    def bind(self, pod: Pod, node: str) -> None:
        """Count the pod's extended resources as used on the node.

        Args:
            pod: the pod.
            node: name of the node.
        """
        if amounts := requested_amounts(complete_requests(pod)):
            self._used.setdefault(node, Counter()).update(amounts)

    def requests_resources(self, pod: Pod | None) -> bool:
        """Return whether the pod requests extended resources.

        Args:
            pod: the pod; None for a claim that no pod uses.
        """
        return pod is not None and bool(requested_amounts(complete_requests(pod)))

    def on_node(self, pod: Pod | None, name: str) -> ResourceClaim | str | None:
        """Return the special claim that the pod needs on a node.

        Args:
            pod: the pod; None for a claim that no pod uses.
            name: name of the node.

        Returns:
            The special claim; None if the pod needs no special claim; a string with the reason if the pod
            cannot run on the node.
        """
        if pod is None:
            return None
        pod = complete_requests(pod)
        amounts = requested_amounts(pod)
        if not amounts:
            return None
        used: Mapping[str, int] = self._used.get(name, {})
        try:
            split = split_resources(pod, amounts, self._nodes[name], used, self._classes)
        except Unservable as problem:
            return str(problem)
        if split.insufficient:
            return ", ".join(f"Insufficient {resource}" for resource in split.insufficient)
        if not split.requests.requests:
            return None
        return self._leftover_claims.get(pod.ref) or new_special_claim(pod, split.requests, self._claim_refs)

    def group_nodes(self, pod: Pod) -> Iterator[SpecialClaim]:
        """Yield the nodes that can run the pod, grouped by the devices that the pod requests there.

        Args:
            pod: the pod.
        """
        groups: dict[object, tuple[ResourceClaim | None, list[str]]] = {}
        for name in self._nodes:
            claim = self.on_node(pod, name)
            if not isinstance(claim, str):
                requested = tuple(request.name for request in claim.spec.devices.requests) if claim else ()
                groups.setdefault(requested, (claim, []))[1].append(name)
        for claim, names in groups.values():
            yield SpecialClaim(claim, frozenset(names))


def _owners(world: World, claim: ResourceClaim) -> Iterable[Pod]:
    refs = (f"{claim.metadata.namespace}/{owner.name}" for owner in claim.metadata.owner_references)
    return (pod for ref in refs if (pod := world.pods.get(ref)) is not None and is_special_for(claim, pod))
