"""Filter and Score: choose the node of a pod, other nodes, and the potential nodes for controllers.

The nominated node is tried first, and chosen if it suits. If controllers must allocate claims of the pod
(KEP-3063), the node that the negotiation prefers is tried next. Otherwise, all nodes are searched (`search`).
If no node suits, the reasons are known for all pods of the pod's kind until the cluster changes.
"""

from collections.abc import Mapping, Sequence

from dradriver.control.scheduler.node_choice.refusals import NodeRefusals
from dradriver.control.scheduler.node_choice.search import NodeChoice, NodeSearch
from dradriver.control.scheduler.snapshot import UNDECIDED, Cycle, NoNode, Unschedulable

__all__ = ["check_known_refusals", "choose_node"]


def check_known_refusals(cycle: Cycle) -> None:
    """Raise if it is known that no node suits pods of the pod's kind."""
    known = None if cycle.kind is None else cycle.snapshot.cluster.refusals.find(cycle.kind)
    if known is not None:
        known = known.for_claims(tuple(claim.ref for claim in cycle.claims))
    if known is not None:
        raise _no_node(known)


def choose_node(cycle: Cycle, others: int = 0) -> tuple[NodeChoice, Mapping[str, float], Sequence[str]]:
    """Return the best node for a pod, other nodes, and the potential nodes for controllers of its claims.

    Args:
        cycle: the attempt, after PreFilter.
        others: maximum number of other suitable nodes to find.

    Returns:
        The choice, the other nodes with scores from 0 to 1, and the nodes that suit the pod if controllers must
        allocate claims for it (KEP-3063), the best first.

    Raises:
        NoNode: no node suits the pod.
    """
    cluster = cycle.snapshot.cluster
    search = NodeSearch(cycle)
    nominated = cycle.pod.status.nominated_node_name
    choice = search.try_node(nominated) if nominated in cycle.snapshot.candidates else None
    needs = cycle.classic
    is_awaiting = needs is not None and bool(needs.awaited)
    if choice is None and is_awaiting:
        choice = search.find_negotiated()
    choice = choice or search.find_best()
    if choice is None:
        refusals = search.explain()
        if cycle.kind is not None:
            cluster.refusals.add(cycle.kind, refusals)
        raise _no_node(refusals)
    if needs is not None and needs.context is not None and needs.context.spec.selected_node == choice.node:
        others = 0  # a controller may allocate for this node now
    other_nodes = search.find_others(choice, others) if others else {}
    return choice, other_nodes, search.find_potential(choice) if is_awaiting else ()


def _no_node(refusals: NodeRefusals) -> NoNode:
    # If the allocator gave up, the pod may still fit, so the condition's reason must be different.
    reason = UNDECIDED if refusals.is_undecided else "Unschedulable"
    verdict = Unschedulable(refusals.message(), reason, refusals=refusals)
    return NoNode(verdict, may_preempt=not refusals.is_undecided)
