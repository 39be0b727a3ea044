"""Runs the allocator over a world, need by need; each allocation is in force for the next."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from dradriver.allocator import Features, InUse, Inventory, Node, Refusal, allocate
from dradriver.cli.world import Need, World, allocation_node, needs
from dradriver.errors import UsageError
from dradriver.model.claim import Allocation, ClaimStatus, ResourceClaim

__all__ = ["Outcome", "outcomes"]


@dataclass
class Outcome:
    """What happened to one need.

    Attributes:
        subject: the pod or claim.
        node: where it fits; empty when it fits nowhere.
        claims: its claims with their allocations.
        refusals: why not, one a node that was tried.
    """

    subject: str
    node: str = ""
    claims: list[ResourceClaim] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def outcomes(world: World, features: Features) -> Iterator[Outcome]:
    """The outcome of each need, in order; a need takes the first node that it fits on."""
    if not world.pods and not world.claims:
        raise UsageError("the files hold no Pod and no ResourceClaim: there is nothing to allocate")
    inventory = Inventory.of(world.slices)
    nodes = [allocation_node(node) for node in world.places().values()]

    def try_on(claims: list[ResourceClaim], node: Node, in_use: InUse) -> Mapping[str, Allocation]:
        return allocate(claims, inventory, world.classes, in_use, node, features=features)

    held = dict(world.claims)
    for need in needs(world):
        current = [held.get(claim.ref, claim) for claim in need.claims]
        outcome = Outcome(_subject(need), refusals=list(need.missing))
        if not need.missing:
            in_use = InUse.of(held.values())
            _try_nodes(nodes, need, current, partial(try_on, in_use=in_use), outcome)
        for claim in outcome.claims:
            held[claim.ref] = claim
        yield outcome


def _try_nodes(
    nodes: Sequence[Node],
    need: Need,
    claims: list[ResourceClaim],
    try_on: Callable[[list[ResourceClaim], Node], Mapping[str, Allocation]],
    outcome: Outcome,
) -> None:
    open_claims = [claim for claim in claims if claim.allocation is None]
    for node in nodes:
        elsewhere = _elsewhere(need, claims, node)
        if elsewhere:
            outcome.refusals.append(f"node {node.name}: {elsewhere}")
            continue
        try:
            allocations = try_on(open_claims, node)
        except Refusal as refusal:
            outcome.refusals.append(refusal.text())
            if refusal.kind == "claim":
                # No node can help.
                return
            continue
        outcome.node, outcome.refusals = node.name, []
        outcome.claims = [_allocated(claim, allocations) for claim in claims]
        return


def _elsewhere(need: Need, claims: list[ResourceClaim], node: Node) -> str:
    """Why the node is out of the question before any device is looked at."""
    if not _may_run_on(need, node):
        return "the pod's nodeName or nodeSelector excludes it"
    for claim in claims:
        selector = claim.allocation.node_selector if claim.allocation else None
        if selector is not None and not selector.matches(node.name, node.labels):
            return f"claim {claim.ref} is allocated and can't be used there"
    return ""


def _allocated(claim: ResourceClaim, allocations: Mapping[str, Allocation]) -> ResourceClaim:
    found = allocations.get(claim.metadata.uid or claim.ref)
    return claim if found is None else replace(claim, status=ClaimStatus(allocation=found))


def _subject(need: Need) -> str:
    return f"pod {need.pod.ref}" if need.pod is not None else f"claim {need.claims[0].ref}"


def _may_run_on(need: Need, node: Node) -> bool:
    if need.pod is None:
        return True
    spec = need.pod.spec
    labels = all(node.labels.get(key) == value for key, value in spec.node_selector.items())
    return labels and spec.node_name in {"", node.name}
