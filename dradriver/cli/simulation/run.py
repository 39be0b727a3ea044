"""Places pods one after another."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

from msgspec.structs import replace

from dradriver.allocator import AllocationNode, Refusal
from dradriver.allocator.placement import NoNodeFits, Placement
from dradriver.cli.attempt import (
    AttemptSettings,
    ExtendedResources,
    Filters,
    build_placer,
    describe_nodes,
    find_disabled_gates,
)
from dradriver.cli.classic import ClassicClaim, ClassicClaims
from dradriver.cli.world import Need, World
from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.scheduler.binding.binding_conditions import has_conditions
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["Simulation", "SimulationOutcome"]

_MAX_REASONS = 8


class _NoPlacementError(Exception):
    """No node can allocate the claims.

    `refused` contains the allocator's refusal for each group of nodes on which the pod needs the same claims.
    """

    def __init__(self, refused: Sequence[NoNodeFits]) -> None:
        self.refused = refused
        super().__init__()


@dataclass
class SimulationOutcome:
    """Result of one pod or claim.

    Attributes:
        need: the pod or the claim.
        node: name of the node of the pod or claim; empty if no node fits.
        claims: the claims after the placement.
        reasons: for each group of nodes with the same result, why the pod or claim does not fit.
        undecided: whether the search gave up on a node, so that the claims may nevertheless fit there.
        seconds: seconds that the allocator needed.
        controlled: the claims that controllers allocate and that are therefore not simulated (KEP-3063).
        disabled_gates: the feature gates that are off and that the reasons name.
    """

    need: Need
    node: str = ""
    claims: Sequence[ResourceClaim] = ()
    reasons: list[str] = field(default_factory=list)
    undecided: bool = False
    seconds: float = 0.0
    controlled: Sequence[ClassicClaim] = ()
    disabled_gates: Sequence[str] = ()

    @property
    def fits(self) -> bool:
        """Whether the pod or claim has its devices, or only controllers can decide about it."""
        return bool(self.node) or (self.need.pod is None and bool(self.controlled))


class Simulation:
    """A world in which pods and claims are placed in their order."""

    def __init__(self, world: World, settings: AttemptSettings) -> None:
        self._features = settings.features
        self._nodes = world.known_nodes()
        self._filters = Filters(self._nodes, list(world.pods.values()))
        self._extended = ExtendedResources(world, settings.features)
        self._classic = ClassicClaims(world.classes, world.controller_allocations.values())
        self._placer = build_placer(world, settings)
        self.claims = dict(world.claims)
        with suppress(NoNodeFits):
            self._placer.place([])  # the first call prepares the allocator, which counts as loading

    def place(self, need: Need) -> SimulationOutcome:
        """Allocate the devices that a pod or claim needs, and count them as in use.

        Args:
            need: a pod with its claims, or a claim.

        Returns:
            The node and the allocated claims, or the reasons why no node fits.
        """
        claims = [self.claims.get(claim.ref, claim) for claim in need.claims]
        errors = filter(None, map(self._classic.find_error, claims))
        outcome = SimulationOutcome(need, claims=claims, reasons=[*_fatal_reasons(need, claims), *errors])
        if outcome.reasons:
            return outcome
        outcome.controlled = self._controlled(claims)
        if need.pod is None and outcome.controlled:
            return outcome
        began = perf_counter()
        try:
            placement, wanted = self._find_placement(need, claims)
        except _NoPlacementError as error:
            outcome.seconds = perf_counter() - began
            outcome.undecided = any(refused.kind == "undecided" for refused in error.refused)
            outcome.reasons = list(self._refusal_reasons(need, claims, error.refused))
            texts = [group.refusal.text() for refused in error.refused for group in refused.groups]
            outcome.disabled_gates = find_disabled_gates([*texts, *outcome.reasons], self._features)
            return outcome
        except Refusal as refusal:
            outcome.seconds = perf_counter() - began
            outcome.undecided = refusal.kind == "undecided"
            outcome.reasons = [refusal.brief()]
            outcome.disabled_gates = find_disabled_gates([refusal.text()], self._features)
            return outcome
        outcome.node, outcome.claims = placement.node, self._placer.hold(wanted, placement)
        outcome.seconds = perf_counter() - began
        for claim in outcome.claims:
            self.claims[claim.ref] = claim if need.pod is None else _reserve(claim, need.pod)
        if need.pod is not None and not need.pod.spec.node_name:
            self._filters.bind(need.pod, placement.node)
            self._extended.bind(need.pod, placement.node)
        return outcome

    def _find_placement(
        self, need: Need, claims: Sequence[ResourceClaim]
    ) -> tuple[Placement, Sequence[ResourceClaim]]:
        """Return the node, and the claims to allocate there. The claims may differ between nodes."""
        if need.pod is None or not self._extended.requests_resources(need.pod):
            try:
                return self._try(need, claims, None), claims
            except NoNodeFits as refused:
                raise _NoPlacementError([refused]) from None
        placements, refusals = [], []
        for choice in self._extended.group_nodes(need.pod):
            wanted = claims if choice.claim is None else [*claims, choice.claim]
            try:
                placements.append((self._try(need, wanted, choice.nodes), wanted))
            except NoNodeFits as refused:
                refusals.append(refused)
        if not placements:
            raise _NoPlacementError(refusals)
        return min(placements, key=lambda each: (_has_binding_conditions(each[0]), each[0].node))

    def _try(self, need: Need, claims: Sequence[ResourceClaim], names: Collection[str] | None) -> Placement:
        """Place the claims on one of the nodes `names`; None: on any node."""
        controlled = self._controlled(claims)
        refs = {each.claim.ref for each in controlled}
        open_claims = [claim for claim in claims if claim.allocation is None and claim.ref not in refs]
        accepts_all = need.pod is not None and self._filters.accept_all(need.pod, claims)
        if names is None and accepts_all and not controlled:
            return self._placer.place(open_claims)

        def may_run_on(node: AllocationNode) -> bool:
            return (
                (names is None or node.name in names)
                and not self._filters.refusal(need.pod, claims, node.name)
                and all(each.suits(node.name, node.labels) for each in controlled)
            )

        return self._placer.place(open_claims, may_run_on=may_run_on)

    def _unsuitable(self, claims: Sequence[ResourceClaim], name: str) -> str | None:
        """Return why a class excludes a node (`suitableNodes`); None if no class does."""
        excluding = [
            each.claim.ref
            for each in self._controlled(claims)
            if not each.suits(name, self._filters.labels(name))
        ]
        return (
            f"suitableNodes of a class of claim {', '.join(excluding)} excludes the node" if excluding else None
        )

    def _controlled(self, claims: Sequence[ResourceClaim]) -> list[ClassicClaim]:
        """Return the pending claims that controllers allocate."""
        found = (self._classic.find_valid(each) for each in claims if each.allocation is None)
        return [each for each in found if each is not None]

    def _refusal_reasons(
        self, need: Need, claims: Sequence[ResourceClaim], refused: Sequence[NoNodeFits]
    ) -> Iterator[str]:
        refused_groups = [group for each in refused for group in each.groups]
        tried = {name for group in refused_groups for name in group.nodes}
        groups = [(group.refusal.brief(), list(group.nodes)) for group in refused_groups]
        excluded: dict[str, list[str]] = {}
        for name in self._nodes:
            if name in tried:
                continue
            reason = (
                self._filters.refusal(need.pod, claims, name)
                or self._unsuitable(claims, name)
                or self._extended.on_node(need.pod, name)
            )
            if isinstance(reason, str):
                excluded.setdefault(reason, []).append(name)
        groups += sorted(excluded.items(), key=lambda each: -len(each[1]))
        for reason, names in groups[:_MAX_REASONS]:
            yield f"{describe_nodes(names)}: {reason}"
        if more := sum(len(names) for _, names in groups[_MAX_REASONS:]):
            yield f"{more} more node(s) for other reasons: `dradriver explain` shows them"


def _has_binding_conditions(placement: Placement) -> bool:
    return any(map(has_conditions, placement.allocations.values()))


def _reserve(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    users = claim.status.reserved_for
    if any(user.name == pod.metadata.name for user in users):
        return claim
    return replace(claim, status=replace(claim.status, reserved_for=[*users, consumer_of(pod)]))


def _fatal_reasons(need: Need, claims: Sequence[ResourceClaim]) -> list[str]:
    """Return the reasons that exclude all nodes."""
    gone = [f"claim {claim.ref} is being deleted" for claim in claims if claim.metadata.deletion_timestamp]
    gated = ["the pod has scheduling gates"] if need.pod is not None and need.pod.spec.scheduling_gates else []
    return [*need.missing, *gone, *gated]
