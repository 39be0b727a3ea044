"""Pods find their nodes, one after the other."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

from msgspec.structs import replace

from dradriver.allocator import Refusal
from dradriver.allocator.placement import NoNodeFits, Placement
from dradriver.cli.attempt import Filters, Settings, named_nodes, placer_of
from dradriver.cli.world import Need, World
from dradriver.control.pod_claims import consumer_of
from dradriver.model.claim import ResourceClaim
from dradriver.model.workload import Pod

__all__ = ["Outcome", "Simulation"]

_TOLD = 8


@dataclass
class Outcome:
    """What became of one need.

    Attributes:
        need: the pod or the claim.
        node: where it goes; empty when it goes nowhere.
        claims: its claims as they are then.
        reasons: why it goes nowhere, for each group of nodes that answer alike.
        seconds: how long the allocator took.
    """

    need: Need
    node: str = ""
    claims: Sequence[ResourceClaim] = ()
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Simulation:
    """A world in which needs are met in their order."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._nodes = world.places()
        self._filters = Filters(self._nodes, list(world.pods.values()))
        self._placer = placer_of(world, settings)
        self.claims = dict(world.claims)
        with suppress(NoNodeFits):
            self._placer.place([])  # whatever it prepares when it is asked first belongs to loading

    def meet(self, need: Need) -> Outcome:
        """Gives the need what it gets; what it gets is in use from now on."""
        claims = [self.claims.get(claim.ref, claim) for claim in need.claims]
        outcome = Outcome(need, claims=claims, reasons=_hopeless(need, claims))
        if outcome.reasons:
            return outcome
        began = perf_counter()
        try:
            placement = self._place(need, claims)
        except NoNodeFits as refused:
            outcome.seconds = perf_counter() - began
            outcome.reasons = list(self._why_nowhere(need, claims, refused))
            return outcome
        except Refusal as refusal:
            outcome.seconds = perf_counter() - began
            outcome.reasons = [refusal.brief()]
            return outcome
        outcome.node, outcome.claims = placement.node, self._placer.hold(claims, placement)
        outcome.seconds = perf_counter() - began
        for claim in outcome.claims:
            self.claims[claim.ref] = claim if need.pod is None else _reserved(claim, need.pod)
        if need.pod is not None and not need.pod.spec.node_name:
            self._filters.bind(need.pod, placement.node)
        return outcome

    def _place(self, need: Need, claims: Sequence[ResourceClaim]) -> Placement:
        open_claims = [claim for claim in claims if claim.allocation is None]
        if need.pod is not None and self._filters.accept_all(need.pod, claims):
            return self._placer.place(open_claims)
        return self._placer.place(
            open_claims, may_run_on=lambda node: self._filters.refusal(need.pod, claims, node.name) is None
        )

    def _why_nowhere(self, need: Need, claims: Sequence[ResourceClaim], refused: NoNodeFits) -> Iterator[str]:
        tried = {name for group in refused.groups for name in group.nodes}
        groups = [(group.refusal.brief(), list(group.nodes)) for group in refused.groups]
        excluded: dict[str, list[str]] = {}
        for name in self._nodes:
            if name not in tried and (words := self._filters.refusal(need.pod, claims, name)):
                excluded.setdefault(words, []).append(name)
        groups += sorted(excluded.items(), key=lambda each: -len(each[1]))
        for words, names in groups[:_TOLD]:
            yield f"{named_nodes(names)}: {words}"
        if more := sum(len(names) for _, names in groups[_TOLD:]):
            yield f"{more} more node(s), for other reasons: `dradriver explain` has all"


def _reserved(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    users = claim.status.reserved_for
    if any(user.name == pod.metadata.name for user in users):
        return claim
    return replace(claim, status=replace(claim.status, reserved_for=[*users, consumer_of(pod)]))


def _hopeless(need: Need, claims: Sequence[ResourceClaim]) -> list[str]:
    """Why no node can help, before any is looked at."""
    gone = [f"claim {claim.ref} is being deleted" for claim in claims if claim.metadata.deletion_timestamp]
    gated = ["it has scheduling gates"] if need.pod is not None and need.pod.spec.scheduling_gates else []
    return [*need.missing, *gone, *gated]
