"""Decide on which node to evict which pods, so that a pod for which no node suited gets its devices.

Candidates are the nodes that every other check accepts and that lack only devices. As in kube-scheduler, the
search ends when it has found enough candidates. It also ends when the budget of work for one pod is spent; the
next attempt of any pod then begins with the nodes that were not looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dradriver.allocator import BudgetSpentError, Meter
from dradriver.control.preemption.dry_run import select_victims
from dradriver.control.preemption.nominated_pods import hold_devices
from dradriver.control.preemption.victims import Preemption, Victims, is_preempted, rank_candidate
from dradriver.control.scheduler.node_choice.pod_kinds import find_need
from dradriver.control.scheduler.node_choice.search import NodeSearch
from dradriver.control.scheduler.snapshot import Cycle, Unschedulable

__all__ = ["add_preemption", "find_preemption", "is_eligible"]

_MIN_CANDIDATES = 100
_CANDIDATES_PERCENT = 10
"""kube-scheduler's `minCandidateNodesAbsolute` and `minCandidateNodesPercentage`."""


def add_preemption(cycle: Cycle, verdict: Unschedulable) -> Unschedulable:
    """PostFilter: add the evictions that give the pod its devices to the verdict, if there are such.

    Args:
        cycle: the attempt, after Filter.
        verdict: why no node suits the pod.
    """
    preemption = find_preemption(cycle) if is_eligible(cycle) else None
    if preemption is None:
        return verdict
    return replace(verdict, message=f"{verdict.message} {preemption.message}", preemption=preemption)


def is_eligible(cycle: Cycle) -> bool:
    """Return whether the pod may evict other pods, and a pod with a lower priority exists."""
    pod, cluster = cycle.pod, cycle.snapshot.cluster
    if pod.spec.preemption_policy == "Never" or cluster.lowest_priority >= pod.priority:
        return False
    return not cluster.refusals.is_hopeless((find_need(cycle), pod.priority))


def find_preemption(cycle: Cycle) -> Preemption | None:
    """Return the node and the pods to evict; None if evictions do not help.

    If pods that a scheduler preempted are still leaving the nominated node, the pod waits for them, and no
    other pod is evicted (`PodEligibleToPreemptOthers`).

    Args:
        cycle: the attempt, after Filter.
    """
    cluster, search = cycle.snapshot.cluster, NodeSearch(cycle)
    names = [name for name in cycle.snapshot.candidates if search.checked.refusal(name) is None]
    nominated = cycle.pod.status.nominated_node_name
    if nominated in names and _has_leaving_victim(cycle, nominated):
        return Preemption(nominated)
    wanted = max(_MIN_CANDIDATES, len(names) * _CANDIDATES_PERCENT // 100)
    candidates: dict[str, Victims] = {}
    try:
        with hold_devices(cycle):
            for name, victims in _iter_candidates(cycle, search, names):
                if not victims.pods:
                    return Preemption(name)
                candidates[name] = victims
                if len(candidates) >= wanted and not all(each.violations for each in candidates.values()):
                    break
    except BudgetSpentError:
        if not candidates:
            return None
    if not candidates:
        if (need := find_need(cycle)) is not None:
            cluster.refusals.add_hopeless((need, cycle.pod.priority))
        return None
    best = min(candidates, key=lambda name: rank_candidate(name, candidates[name]))
    return Preemption(best, candidates[best].pods)


def _has_leaving_victim(cycle: Cycle, node: str) -> bool:
    """Return whether a pod of lower priority that a scheduler preempted still holds devices of a node."""
    cluster, priority = cycle.snapshot.cluster, cycle.pod.priority
    for ref in cluster.placer.holders_on(node):
        claim = cluster.claims.get(ref)
        for consumer in claim.status.reserved_for if claim is not None else ():
            pod = cluster.find_pod(f"{claim.metadata.namespace}/{consumer.name}") if claim is not None else None
            if pod is not None and pod.priority < priority and is_preempted(pod):
                return True
    return False


def _iter_candidates(cycle: Cycle, search: NodeSearch, names: Sequence[str]) -> Iterator[tuple[str, Victims]]:
    """Yield the nodes on which evictions help, with the victims; the nominated node comes first.

    Raises:
        BudgetSpentError: the budget is spent.
    """
    cluster, meter = cycle.snapshot.cluster, Meter(cycle.snapshot.cluster.budget)
    nominated = cycle.pod.status.nominated_node_name
    start = cluster.next_candidate % max(1, len(names))
    ordered = [*names[start:], *names[:start]]
    if nominated in names:
        ordered.remove(nominated)
        ordered.insert(0, nominated)
    for name in ordered:
        cluster.next_candidate += 1
        claims, _ = search.claims_on(name)
        victims = select_victims(cluster, name, cycle.pod.priority, claims, meter)
        if victims is not None:
            yield name, victims
