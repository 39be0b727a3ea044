"""Places pods one after the other."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

from msgspec.structs import replace

from dradriver.allocator import AllocationNode, Refusal
from dradriver.allocator.placement import NoNodeFits, Placement
from dradriver.cli.attempt import AttemptSettings, ExtendedResources, Filters, named_nodes, placer_of
from dradriver.cli.world import Need, World
from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.scheduler.binding_conditions import requires
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["Simulation", "SimulationOutcome"]

_TOLD = 8


class _NowhereError(Exception):
    """No node can allocate the claims. It has the placer's result for each variant of the request."""

    def __init__(self, refused: Sequence[NoNodeFits]) -> None:
        self.refused = refused
        super().__init__()


@dataclass
class SimulationOutcome:
    """Result of one pod or claim.

    Attributes:
        need: the pod or the claim.
        node: name of its node; empty if there is none.
        claims: its claims afterwards.
        reasons: for each group of nodes with the same result, why it does not fit.
        undecided: whether the search gave up on a node, so that it may fit.
        seconds: time that the allocator needed.
    """

    need: Need
    node: str = ""
    claims: Sequence[ResourceClaim] = ()
    reasons: list[str] = field(default_factory=list)
    undecided: bool = False
    seconds: float = 0.0


class Simulation:
    """A world in which pods and claims are placed in their order."""

    def __init__(self, world: World, settings: AttemptSettings) -> None:
        self._nodes = world.places()
        self._filters = Filters(self._nodes, list(world.pods.values()))
        self._extended = ExtendedResources(world, settings.features)
        self._placer = placer_of(world, settings)
        self.claims = dict(world.claims)
        with suppress(NoNodeFits):
            self._placer.place([])  # its preparation at the first call counts as loading

    def meet(self, need: Need) -> SimulationOutcome:
        """Allocate devices for the need, and count them as in use from now on."""
        claims = [self.claims.get(claim.ref, claim) for claim in need.claims]
        outcome = SimulationOutcome(need, claims=claims, reasons=_hopeless(need, claims))
        if outcome.reasons:
            return outcome
        began = perf_counter()
        try:
            placement, wanted = self._place(need, claims)
        except _NowhereError as nowhere:
            outcome.seconds = perf_counter() - began
            outcome.undecided = any(refused.kind == "undecided" for refused in nowhere.refused)
            outcome.reasons = list(self._why_nowhere(need, claims, nowhere.refused))
            return outcome
        except Refusal as refusal:
            outcome.seconds = perf_counter() - began
            outcome.reasons = [refusal.brief()]
            return outcome
        outcome.node, outcome.claims = placement.node, self._placer.hold(wanted, placement)
        outcome.seconds = perf_counter() - began
        for claim in outcome.claims:
            self.claims[claim.ref] = claim if need.pod is None else _reserved(claim, need.pod)
        if need.pod is not None and not need.pod.spec.node_name:
            self._filters.bind(need.pod, placement.node)
            self._extended.bind(need.pod, placement.node)
        return outcome

    def _place(self, need: Need, claims: Sequence[ResourceClaim]) -> tuple[Placement, Sequence[ResourceClaim]]:
        """Return the node, and the claims to allocate there.

        The devices that a pod requests may differ between nodes.
        """
        if need.pod is None or not self._extended.asks(need.pod):
            try:
                return self._try(need, claims, None), claims
            except NoNodeFits as refused:
                raise _NowhereError([refused]) from None
        found, refusals = [], []
        for choice in self._extended.choices(need.pod):
            wanted = claims if choice.claim is None else [*claims, choice.claim]
            try:
                found.append((self._try(need, wanted, choice.nodes), wanted))
            except NoNodeFits as refused:
                refusals.append(refused)
        if not found:
            raise _NowhereError(refusals)
        return min(found, key=lambda each: (_waits(each[0]), each[0].node))

    def _try(self, need: Need, claims: Sequence[ResourceClaim], names: Collection[str] | None) -> Placement:
        """Place the claims on one of these nodes; None: any node."""
        open_claims = [claim for claim in claims if claim.allocation is None]
        if names is None and need.pod is not None and self._filters.accept_all(need.pod, claims):
            return self._placer.place(open_claims)

        def may_run_on(node: AllocationNode) -> bool:
            return (names is None or node.name in names) and not self._filters.refusal(
                need.pod, claims, node.name
            )

        return self._placer.place(open_claims, may_run_on=may_run_on)

    def _why_nowhere(
        self, need: Need, claims: Sequence[ResourceClaim], refused: Sequence[NoNodeFits]
    ) -> Iterator[str]:
        told = [group for each in refused for group in each.groups]
        tried = {name for group in told for name in group.nodes}
        groups = [(group.refusal.brief(), list(group.nodes)) for group in told]
        excluded: dict[str, list[str]] = {}
        for name in self._nodes:
            if name in tried:
                continue
            words = self._filters.refusal(need.pod, claims, name) or self._extended.on_node(need.pod, name)
            if isinstance(words, str):
                excluded.setdefault(words, []).append(name)
        groups += sorted(excluded.items(), key=lambda each: -len(each[1]))
        for words, names in groups[:_TOLD]:
            yield f"{named_nodes(names)}: {words}"
        if more := sum(len(names) for _, names in groups[_TOLD:]):
            yield f"{more} more node(s), for other reasons: `dradriver explain` has all"


def _waits(placement: Placement) -> bool:
    return any(map(requires, placement.allocations.values()))


def _reserved(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    users = claim.status.reserved_for
    if any(user.name == pod.metadata.name for user in users):
        return claim
    return replace(claim, status=replace(claim.status, reserved_for=[*users, consumer_of(pod)]))


def _hopeless(need: Need, claims: Sequence[ResourceClaim]) -> list[str]:
    """Return the reasons that exclude all nodes."""
    gone = [f"claim {claim.ref} is being deleted" for claim in claims if claim.metadata.deletion_timestamp]
    gated = ["it has scheduling gates"] if need.pod is not None and need.pod.spec.scheduling_gates else []
    return [*need.missing, *gone, *gated]
