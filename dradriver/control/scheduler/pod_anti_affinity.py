"""Whether a node keeps a pod apart from others: required anti-affinity between pods, in both directions.

Devices that span nodes need it: pods that share a claim must end up on different nodes (KEP-4815). Preferred
anti-affinity, and affinity, are not looked at.
"""

from collections.abc import Iterator

from dradriver.control.scheduler.snapshot import Snapshot
from dradriver.model.core.workload import Node, Pod, PodAffinityTerm

__all__ = ["refusal"]


def refusal(pod: Pod, node: Node, snapshot: Snapshot) -> str | None:
    """Why the pod must not run on the node, in kube-scheduler's words; None if it may."""
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
    """A node without the label is near no other."""
    place = node.metadata.labels.get(term.topology_key)
    return place is not None and place == other.metadata.labels.get(term.topology_key)
