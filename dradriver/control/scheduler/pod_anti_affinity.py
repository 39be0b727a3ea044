"""Required anti-affinity between pods, in both directions.

Devices that span nodes need it: pods that share a claim must run on different nodes (KEP-4815). Affinity and
preferred anti-affinity are ignored.
"""

from collections.abc import Iterator

from dradriver.control.scheduler.snapshot import Snapshot
from dradriver.model.core.workload import Node, Pod, PodAffinityTerm

__all__ = ["refusal"]


def refusal(pod: Pod, node: Node, snapshot: Snapshot) -> str | None:
    """Return why the pod must not run on the node, in kube-scheduler's words, or None."""
    namespace = pod.metadata.namespace
    for term in pod.kept_apart_from:
        if any(term.selects(other, namespace) for other in _near(node, term, snapshot)):
            return "node(s) didn't match pod anti-affinity rules"
    for other_node in snapshot.nodes:
        for other in snapshot.pods.get(other_node.metadata.name, ()):
            for term in other.kept_apart_from:
                if _same_place(node, other_node, term) and term.selects(pod, other.metadata.namespace):
                    return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _near(node: Node, term: PodAffinityTerm, snapshot: Snapshot) -> Iterator[Pod]:
    for other_node in snapshot.nodes:
        if _same_place(node, other_node, term):
            yield from snapshot.pods.get(other_node.metadata.name, ())


def _same_place(node: Node, other: Node, term: PodAffinityTerm) -> bool:
    """Return whether a node is in the term's topology of another one; a node without the label never is."""
    place = node.metadata.labels.get(term.topology_key)
    return place is not None and place == other.metadata.labels.get(term.topology_key)
