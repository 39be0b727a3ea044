"""Check the victims that another scheduler selected: do they give a pod its devices, too?

Like the pipeline, the check changes the cluster's state in place and restores it. The caller must be the thread
that plans.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from dradriver.allocator import BudgetSpentError, Meter
from dradriver.control.preemption.dry_run import select_victims
from dradriver.control.preemption.nominated_pods import hold_devices
from dradriver.control.preemption.victims import Victims, rank_importance, split_by_budgets
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.node_choice.search import NodeSearch
from dradriver.control.scheduler.pipeline import begin_cycle
from dradriver.control.scheduler.snapshot import Cycle, NoNode, Snapshot
from dradriver.model.core.workload import Pod

__all__ = ["trim_victims"]


def trim_victims(pod: Pod, snapshot: Snapshot, victims: Mapping[str, Sequence[Pod]]) -> Mapping[str, Victims]:
    """Return the nodes on which the eviction of another scheduler's victims gives a pod its devices, too.

    Args:
        pod: the pod that preempts.
        snapshot: the cluster.
        victims: for each node, the pods that the other scheduler will evict from it.

    Returns:
        For each node that is kept, all pods to evict, and how many of these evictions violate a
        PodDisruptionBudget. If the other scheduler's victims do not hold enough devices, further pods of the
        node are added. kube-scheduler rejects victims that it does not know on the node, such as pods that are
        only nominated. If the budget of work is spent, the remaining nodes are dropped.

    Raises:
        NoNode: the pod lacks claims, so nobody knows yet whether evictions give it its devices.
    """
    known = [node for node in victims if node in snapshot.cluster.nodes]
    cycle, kept = Cycle(pod, replace(snapshot, nodes=known)), dict[str, Victims]()
    try:
        begin_cycle(cycle)
    except NoNode as refusal:
        if refusal.verdict.lacks_claims:
            raise
        return kept
    meter = Meter(snapshot.cluster.budget)
    with hold_devices(cycle):
        for node in known:
            try:
                more = _find_more(cycle, node, victims[node], meter)
            except BudgetSpentError:
                break
            if more is not None:
                kept[node] = _count(snapshot.cluster, (*victims[node], *more.pods))
    return kept


def _find_more(cycle: Cycle, node: str, doomed: Sequence[Pod], meter: Meter) -> Victims | None:
    cluster, leaving = cycle.snapshot.cluster, {pod.ref: pod for pod in doomed}
    search = NodeSearch(cycle)
    with _without_pods(cluster, leaving):
        if search.checked.refusal(node) is not None:
            return None
    claims, _ = search.claims_on(node)
    on_node = {pod.ref for pod in cluster.pods_on(node) if pod.spec.node_name} | leaving.keys()
    return select_victims(cluster, node, cycle.pod.priority, claims, meter, doomed=leaving, allowed=on_node)


@contextmanager
def _without_pods(cluster: ClusterState, refs: Collection[str]) -> Iterator[None]:
    """Let pods not count on their nodes inside of `with`."""
    removed = {ref: node for ref in refs if (node := cluster.node_of(ref))}
    pods = {ref: pod for ref in removed if (pod := cluster.find_pod(ref)) is not None}
    try:
        for ref in removed:
            cluster.remove_pod(ref)
        yield
    finally:
        for ref, node in removed.items():
            cluster.put_pod(pods[ref], node)


def _count(cluster: ClusterState, pods: Sequence[Pod]) -> Victims:
    important = tuple(sorted(pods, key=rank_importance))
    violating, _ = split_by_budgets(important, cluster.budgets.values())
    return Victims(important, len(violating))
