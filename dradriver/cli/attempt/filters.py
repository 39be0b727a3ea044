"""Filters nodes for a pod with the scheduler's own filters. Unallocated devices are not considered."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from dradriver.control.scheduler.node_choice import node_filters
from dradriver.control.scheduler.snapshot import counts_on_node
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["Filters"]

_FILTERS: Final = (
    node_filters.check_cordon,
    node_filters.check_ready,
    node_filters.check_node_affinity,
    node_filters.check_taints,
)


class Filters:
    """The filters over the nodes of a world. Pods are placed one after another."""

    def __init__(self, nodes: Mapping[str, Node], pods: Sequence[Pod]) -> None:
        self._nodes = nodes
        self._pods_on: defaultdict[str, list[Pod]] = defaultdict(list)
        self._has_anti_affinity = any(pod.required_anti_affinity for pod in pods)
        self._all_nodes_accept = all(_accepts_all_pods(node) for node in nodes.values())
        for pod in pods:
            if counts_on_node(pod):
                self.bind(pod, pod.spec.node_name)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a node.

        Args:
            name: name of the node.
        """
        return self._nodes[name].metadata.labels

    def bind(self, pod: Pod, node: str) -> None:
        """Count the pod as running on the node.

        Args:
            pod: the pod.
            node: name of the node.
        """
        self._pods_on[node].append(pod)

    def accept_all(self, pod: Pod, claims: Sequence[ResourceClaim]) -> bool:
        """Return whether all nodes accept the pod, so that the caller need not filter each node.

        Args:
            pod: the pod.
            claims: the claims of the pod.
        """
        spec = pod.spec
        restricted = spec.node_name or spec.node_selector or spec.affinity or self._has_anti_affinity
        return self._all_nodes_accept and not restricted and not any(claim.allocation for claim in claims)

    def refusal(self, pod: Pod | None, claims: Sequence[ResourceClaim], name: str) -> str | None:
        """Return why a pod with these claims cannot run on a node; None if the pod can run there.

        Args:
            pod: the pod; None for a claim that no pod uses.
            claims: the claims. Allocated claims must be usable on the node.
            name: name of the node.
        """
        node = self._nodes[name]
        if pod is not None:
            if pod.spec.node_name not in {"", name}:
                return f"the pod has spec.nodeName {pod.spec.node_name}"
            if reason := next((reason for check in _FILTERS if (reason := check(pod, node)) is not None), None):
                return reason
            if self._has_anti_affinity and (
                reason := node_filters.check_pod_anti_affinity(
                    pod, node, self._nodes.values(), lambda name: self._pods_on.get(name, ())
                )
            ):
                return reason
        unusable = [
            claim.ref
            for claim in claims
            if claim.allocation is not None
            and (selector := claim.allocation.node_selector) is not None
            and not selector.matches(name, node.metadata.labels)
        ]
        return f"allocated claim {', '.join(unusable)} cannot be used on this node" if unusable else None


def _accepts_all_pods(node: Node) -> bool:
    return (
        not node.spec.unschedulable and not node.spec.taints and node_filters.check_ready(Pod(), node) is None
    )
