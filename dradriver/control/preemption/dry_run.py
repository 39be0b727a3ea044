"""Select the victims on one node: the evictions are tried in the placer, and reverted.

All possible victims leave first. If the pod's claims fit then, as many victims as possible stay: first those
whose eviction violates a PodDisruptionBudget, then the others, the most important ones first. So the eviction
of each remaining victim is necessary.

The placer is changed in place and restored in any case. The caller must be the thread that plans.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from dradriver.allocator import Meter, Refusal
from dradriver.allocator.placement import Placer
from dradriver.control.preemption.held_claims import HeldClaim, find_held_claims
from dradriver.control.preemption.victims import Victims, rank_importance, split_by_budgets
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["ReleasedClaims", "release_claims", "select_victims"]

_NONE: Final[Mapping[str, Pod]] = MappingProxyType({})


class ReleasedClaims:
    """The claims that count as released in the placer."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._claims: dict[str, ResourceClaim] = {}

    def release(self, claims: Iterable[ResourceClaim]) -> None:
        """Let the devices of the claims count as free."""
        for claim in claims:
            self._claims[claim.ref] = claim
            self._placer.remove_claim(claim.ref)

    def hold(self, claims: Iterable[ResourceClaim]) -> None:
        """Let the devices of released claims count as in use again."""
        for claim in claims:
            if self._claims.pop(claim.ref, None) is not None:
                self._placer.put_claim(claim)

    def hold_all(self) -> None:
        """Let the devices of all released claims count as in use again."""
        self.hold(list(self._claims.values()))


@contextmanager
def release_claims(placer: Placer, claims: Iterable[ResourceClaim] = ()) -> Iterator[ReleasedClaims]:
    """Let the devices of claims count as free inside of `with`.

    Args:
        placer: the placer, which contains the claims.
        claims: the claims that are released at first.
    """
    released = ReleasedClaims(placer)
    try:
        released.release(claims)
        yield released
    finally:
        released.hold_all()


def select_victims(
    cluster: ClusterState,
    node: str,
    priority: int,
    claims: Sequence[ResourceClaim],
    meter: Meter,
    *,
    doomed: Mapping[str, Pod] = _NONE,
    allowed: Collection[str] | None = None,
) -> Victims | None:
    """Return the pods that must be evicted so that claims fit on a node; None if evictions do not help.

    Args:
        cluster: the cluster.
        node: the node's name.
        priority: the priority of the pod that needs the claims.
        claims: the claims to allocate.
        meter: counts the work.
        doomed: the pods that leave in any case, by `namespace/name`.
        allowed: the pods (`namespace/name`) that may be victims. None: all. Doomed pods must be among them.

    Returns:
        The victims without the doomed pods. If there are none, the claims fit when the pods that are leaving
        have left.

    Raises:
        BudgetSpentError: the meter's budget is spent.
    """
    held = find_held_claims(cluster, node, priority, allowed)
    leaving = [each for each in held if not each.victims.keys() - doomed.keys()]
    others = [each for each in held if each.victims.keys() - doomed.keys()]
    with release_claims(cluster.placer, [each.claim for each in leaving]) as released:
        # Without pods that leave, the claims do not fit: otherwise no preemption would be necessary.
        if (leaving or doomed) and _fits(cluster, node, claims, meter):
            return Victims()
        released.release(each.claim for each in others)
        if not others or not _fits(cluster, node, claims, meter):
            return None
        pods = {ref: pod for each in others for ref, pod in each.victims.items() if ref not in doomed}
        important = sorted(pods.values(), key=rank_importance)
        # The doomed pods use up disruptions before any victim does.
        violating, harmless = split_by_budgets((*doomed.values(), *important), cluster.budgets.values())
        evicted = set(pods)
        for pod in (each for each in (*violating, *harmless) if each.ref not in doomed):
            used = [each for each in others if pod.ref in each.victims]
            evicted.discard(pod.ref)
            released.hold(each.claim for each in used)
            if not _fits(cluster, node, claims, meter):
                evicted.add(pod.ref)
                released.release(each.claim for each in _released_by(used, evicted | doomed.keys()))
        refs = {pod.ref for pod in violating}
        victims = tuple(pod for pod in important if pod.ref in evicted)
        return Victims(victims, sum(pod.ref in refs for pod in victims))


def _released_by(held: Iterable[HeldClaim], evicted: Collection[str]) -> Iterator[HeldClaim]:
    return (each for each in held if all(ref in evicted for ref in each.victims))


def _fits(cluster: ClusterState, node: str, claims: Sequence[ResourceClaim], meter: Meter) -> bool:
    try:
        return not claims or cluster.placer.fits_on(node, claims, meter)
    except Refusal:
        return False  # the claims are wrong on every node
