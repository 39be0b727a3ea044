"""Finds the nodes that can run a pod, apart from unallocated devices, with the scheduler's own filters."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from dradriver.allocator import Inventory
from dradriver.control.scheduler import node_filters, pod_anti_affinity
from dradriver.control.scheduler.snapshot import Snapshot, holds
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["Filters"]

_FILTERS: Final = (node_filters.unschedulable, node_filters.ready, node_filters.affinity, node_filters.taints)


class Filters:
    """The filters over the nodes of a world in which pods are placed one after the other."""

    def __init__(self, nodes: Mapping[str, Node], pods: Sequence[Pod]) -> None:
        self._nodes = nodes
        self._pods_on: defaultdict[str, list[Pod]] = defaultdict(list)
        self._kept_apart = any(pod.kept_apart_from for pod in pods)
        self._plain = all(_takes_all(node) for node in nodes.values())
        self._snapshot = Snapshot(list(nodes.values()), {}, {}, Inventory({}), pods=self._pods_on)
        for pod in pods:
            if holds(pod):
                self.bind(pod, pod.spec.node_name)

    def bind(self, pod: Pod, node: str) -> None:
        """Count the pod on the node from now on."""
        self._pods_on[node].append(pod)

    def accept_all(self, pod: Pod, claims: Sequence[ResourceClaim]) -> bool:
        """Return whether no node has to be excluded for the pod."""
        spec = pod.spec
        tied = spec.node_name or spec.node_selector or spec.affinity or self._kept_apart
        return self._plain and not tied and not any(claim.allocation for claim in claims)

    def refusal(self, pod: Pod | None, claims: Sequence[ResourceClaim], name: str) -> str | None:
        """Return why a pod with these claims cannot run on a node; None if it can.

        Args:
            pod: None for a claim that no pod uses.
            claims: its claims. Allocated ones must be usable on the node.
            name: name of the node.
        """
        node = self._nodes[name]
        if pod is not None:
            if pod.spec.node_name not in {"", name}:
                return f"the pod's nodeName is {pod.spec.node_name}"
            if words := next((words for check in _FILTERS if (words := check(pod, node)) is not None), None):
                return words
            if self._kept_apart and (words := pod_anti_affinity.refusal(pod, node, self._snapshot)):
                return words
        off = [
            claim.ref
            for claim in claims
            if claim.allocation is not None
            and (selector := claim.allocation.node_selector) is not None
            and not selector.matches(name, node.metadata.labels)
        ]
        return f"allocated claim {', '.join(off)} can't be used there" if off else None


def _takes_all(node: Node) -> bool:
    return not node.spec.unschedulable and not node.spec.taints and node_filters.ready(Pod(), node) is None
