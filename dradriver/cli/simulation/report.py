"""The result of a simulation, for programs and for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.cli.attempt import gate_hints
from dradriver.cli.simulation.run import SimulationOutcome
from dradriver.cli.world import DEFAULT_NAMESPACE
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.overview import LargestDevices

__all__ = ["SimulationReport"]

_NO_SLICES: Final = (
    "the files have no ResourceSlice, so there are no devices; add -f slices.yaml from "
    "`kubectl get resourceslices -o yaml > slices.yaml`"
)


@dataclass(frozen=True)
class SimulationReport:
    """Results of all pods and claims.

    Attributes:
        outcomes: results in the order of placement.
        loading: seconds that it took to load the world.
        has_slices: whether the world has ResourceSlices.
    """

    outcomes: Sequence[SimulationOutcome]
    loading: float
    has_slices: bool

    @property
    def fits(self) -> bool:
        """Whether all pods and claims have their devices, apart from those of controllers."""
        return all(outcome.fits for outcome in self.outcomes)

    @property
    def seconds(self) -> float:
        """Seconds that the allocator needed for all pods."""
        return sum(outcome.seconds for outcome in self._pods)

    @property
    def _pods(self) -> list[SimulationOutcome]:
        return [outcome for outcome in self.outcomes if outcome.need.pod is not None]

    def document(self, largest: Sequence[LargestDevices]) -> dict[str, object]:
        """Return a document of `dradriver/v1`.

        Args:
            largest: the largest devices of each pool that still fit after the simulation.
        """
        lone_claims = [outcome for outcome in self.outcomes if outcome.need.pod is None]
        return {
            "apiVersion": "dradriver/v1",
            "kind": "Simulation",
            "placements": {
                _name(outcome): {"node": outcome.node, "claims": _allocations(outcome.claims)}
                for outcome in self._pods
                if outcome.node
            },
            "unschedulable": {_name(each): each.reasons for each in self._pods if not each.node},
            "undecided": [_name(each) for each in self.outcomes if each.undecided],
            "claims": {
                _name(outcome): {"node": outcome.node, "allocation": builtins(outcome.claims[0].allocation)}
                for outcome in lone_claims
                if outcome.node
            },
            "unallocated": {_name(each): each.reasons for each in lone_claims if not each.fits},
            "controller_claims": {
                _key(each.claim.metadata): {"controller": each.controller, "mode": each.mode}
                for outcome in self.outcomes
                for each in outcome.controlled
            },
            "hints": list(self._hints()),
            "largest_devices": builtins(largest),
            "loading_seconds": round(self.loading, 3),
            **self._speed(),
        }

    def _speed(self) -> Mapping[str, float]:
        times = sorted(outcome.seconds for outcome in self._pods)
        seconds = self.seconds
        return {
            "seconds": round(seconds, 6),
            "pods_per_second": round(len(times) / seconds, 1) if seconds else 0.0,
            "p50_ms": _percentile(times, 50),
            "p99_ms": _percentile(times, 99),
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield each pod or claim with its result in one sentence."""
        for head, *details in self._paragraphs():
            name, _, result = head.partition(": ")
            yield name, ". ".join([result, *map(str.strip, details)])

    def lines(self) -> Iterator[str]:
        """Yield a line for each pod or claim and each device."""
        for paragraph in self._paragraphs():
            yield from paragraph
        yield from (f"hint: {hint}" for hint in self._hints())

    def _paragraphs(self) -> Iterator[list[str]]:
        """Yield the lines of each pod or claim."""
        for outcome in self.outcomes:
            yield list(_describe(outcome))

    def _hints(self) -> Iterator[str]:
        needs_slices = any(not each.fits and not each.controlled for each in self.outcomes)
        if needs_slices and not self.has_slices:
            yield _NO_SLICES
        yield from gate_hints(gate for outcome in self.outcomes for gate in outcome.disabled_gates)

    def summary(self) -> str:
        """Return a summary line."""
        pods, speed = self._pods, self._speed()
        placed = sum(bool(outcome.node) for outcome in pods)
        return (
            f"{len(pods)} pod(s): {placed} placed, {len(pods) - placed} unschedulable; loaded in "
            f"{self.loading:.1f} s, allocated in {speed['seconds']:.3f} s ({speed['pods_per_second']} pods/s, "
            f"p50 {speed['p50_ms']} ms, p99 {speed['p99_ms']} ms)"
        )


def _describe(outcome: SimulationOutcome) -> Iterator[str]:
    """Yield a line about a pod or claim, and a line for each device or reason."""
    subject = f"{'claim' if outcome.need.pod is None else 'pod'} {_name(outcome)}"
    if outcome.need.pod is None and outcome.controlled:
        (classic,) = outcome.controlled
        yield f"{subject}: controller {classic.controller} decides about it: not simulated"
        return
    if not outcome.node:
        error = "unschedulable" if outcome.need.pod is not None else "fits nowhere"
        yield f"{subject}: {'undecided' if outcome.undecided else error}"
        yield from (f"  {reason}" for reason in outcome.reasons)
        return
    yield f"{subject}: node {outcome.node}"
    for classic in outcome.controlled:
        head = f"  claim {classic.claim.metadata.name}: controller {classic.controller}"
        yield f"{head} decides whether it can be allocated for the node: not simulated"
    for claim in outcome.claims:
        for result in claim.results:
            yield f"  claim {claim.metadata.name}, request {result.request}: {result.id}"


def _percentile(times: Sequence[float], percent: int) -> float:
    """Return a percentile in milliseconds, by the nearest-rank method."""
    if not times:
        return 0.0
    return round(times[max(0, -(-len(times) * percent // 100) - 1)] * 1000, 3)


def _name(outcome: SimulationOutcome) -> str:
    """Return the name of a pod or claim, after its namespace unless the namespace is `default`.

    Names contain no slash, so a slash always ends a namespace.
    """
    need = outcome.need
    return _key((need.pod or need.claims[0]).metadata)


def _key(meta: ObjectMeta) -> str:
    return meta.name if meta.namespace == DEFAULT_NAMESPACE else f"{meta.namespace}/{meta.name}"


def _allocations(claims: Sequence[ResourceClaim]) -> dict[str, object]:
    """Return the allocations by claim name. Names are unique because a pod's claims are in its namespace."""
    return {claim.metadata.name: builtins(claim.allocation) for claim in claims}
