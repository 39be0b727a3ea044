"""The result of a simulation, for programs and for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.cli.simulation.run import SimulationOutcome
from dradriver.cli.world import DEFAULT_NAMESPACE
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["SimulationReport"]


@dataclass(frozen=True)
class SimulationReport:
    """Results of all pods and claims.

    Attributes:
        outcomes: results in the order of placement.
        loading: seconds that were needed to load the world.
    """

    outcomes: Sequence[SimulationOutcome]
    loading: float

    @property
    def fits(self) -> bool:
        """Whether all pods and claims have their devices."""
        return all(outcome.node for outcome in self.outcomes)

    @property
    def seconds(self) -> float:
        """Seconds that the allocator needed for all pods."""
        return sum(outcome.seconds for outcome in self._pods)

    @property
    def _pods(self) -> list[SimulationOutcome]:
        return [outcome for outcome in self.outcomes if outcome.need.pod is not None]

    def document(self) -> dict[str, object]:
        """Return a document of `dradriver/v1`."""
        alone = [outcome for outcome in self.outcomes if outcome.need.pod is None]
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
                for outcome in alone
                if outcome.node
            },
            "unallocated": {_name(each): each.reasons for each in alone if not each.node},
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

    def lines(self) -> Iterator[str]:
        """Yield a line for each pod or claim and each device."""
        for outcome in self.outcomes:
            what = f"{'claim' if outcome.need.pod is None else 'pod'} {_name(outcome)}"
            if not outcome.node:
                nowhere = "unschedulable" if outcome.need.pod is not None else "fits nowhere"
                yield f"{what}: {'undecided' if outcome.undecided else nowhere}"
                yield from (f"  {reason}" for reason in outcome.reasons)
                continue
            yield f"{what}: node {outcome.node}"
            for claim in outcome.claims:
                for result in claim.results:
                    yield f"  claim {claim.metadata.name}, request {result.request}: {result.id}"

    def summary(self) -> str:
        """Return a summary in one sentence."""
        pods, speed = self._pods, self._speed()
        placed = sum(bool(outcome.node) for outcome in pods)
        return (
            f"{len(pods)} pod(s): {placed} placed, {len(pods) - placed} unschedulable; loaded in "
            f"{self.loading:.1f} s, allocated in {speed['seconds']:.3f} s ({speed['pods_per_second']} pods/s, "
            f"p50 {speed['p50_ms']} ms, p99 {speed['p99_ms']} ms)"
        )


def _percentile(times: Sequence[float], percent: int) -> float:
    """Return a percentile by the nearest rank, in milliseconds."""
    if not times:
        return 0.0
    return round(times[max(0, -(-len(times) * percent // 100) - 1)] * 1000, 3)


def _name(outcome: SimulationOutcome) -> str:
    """Return the name of a pod or claim, with its namespace unless that is `default`. Names have no slash."""
    need = outcome.need
    meta: ObjectMeta = (need.pod or need.claims[0]).metadata
    return meta.name if meta.namespace == DEFAULT_NAMESPACE else f"{meta.namespace}/{meta.name}"


def _allocations(claims: Sequence[ResourceClaim]) -> dict[str, object]:
    """Return the allocations by claim name. The name is enough because a pod's claims are in its namespace."""
    return {claim.metadata.name: builtins(claim.allocation) for claim in claims}
