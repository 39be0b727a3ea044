"""Check whether a node suits a pod, without regard to devices: readiness, cordon, affinity, taints.

These are the filters of kube-scheduler that pods with devices need. Resources other than devices, such as CPU,
are not counted. Required anti-affinity is the only rule between pods that is checked, because pods that share a
device of several nodes must run on different nodes (KEP-4815). The anti-affinity of the pod and of existing
pods is checked.
"""

from collections.abc import Callable, Iterable

from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Node, NodeTaint, Pod, PodAffinityTerm
from dradriver.model.extended_names import is_extended

__all__ = [
    "check_cordon",
    "check_node_affinity",
    "check_pod_anti_affinity",
    "check_ready",
    "check_taints",
    "select_node_fields",
]

_UNSCHEDULABLE = NodeTaint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def check_ready(_pod: Pod, node: Node) -> str | None:
    """Return a reason against the node if its Ready condition is not True.

    In a cluster with a node lifecycle controller, a taint also keeps pods away from such a node.
    """
    status = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    return None if status == "True" else "node(s) were not ready"


def check_cordon(pod: Pod, node: Node) -> str | None:
    """Return a reason against the node if it is cordoned and the pod does not tolerate the cordon's taint."""
    if not node.spec.unschedulable or _is_tolerated(_UNSCHEDULABLE, pod):
        return None
    return "node(s) were unschedulable"


def check_node_affinity(pod: Pod, node: Node) -> str | None:
    """Return the reason if the node does not match the pod's node selector or its required node affinity."""
    labels = node.metadata.labels
    required = _required_affinity(pod)
    selected = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    if selected and (required is None or required.matches(node.metadata.name, labels)):
        return None
    return "node(s) didn't match Pod's node affinity/selector"


def _required_affinity(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def check_taints(pod: Pod, node: Node) -> str | None:
    """Return the reason if the node has a NoSchedule or NoExecute taint that the pod does not tolerate."""
    for taint in node.spec.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not _is_tolerated(taint, pod):
            return "node(s) had untolerated taint(s)"
    return None


def _is_tolerated(taint: NodeTaint, pod: Pod) -> bool:
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)


def check_pod_anti_affinity(
    pod: Pod, node: Node, nodes: Iterable[Node], pods_on: Callable[[str], Iterable[Pod]]
) -> str | None:
    """Return the reason if required anti-affinity of this pod or of an existing pod forbids the node.

    Args:
        pod: the pod.
        node: the node to check.
        nodes: all nodes.
        pods_on: returns the unfinished pods on a node.
    """
    namespace = pod.metadata.namespace
    neighbors = [(other_node, other) for other_node in nodes for other in pods_on(other_node.metadata.name)]
    for term in pod.required_anti_affinity:
        in_topology = (other for other_node, other in neighbors if _in_same_topology(node, other_node, term))
        if any(term.selects(other, namespace) for other in in_topology):
            return "node(s) didn't match pod anti-affinity rules"
    for other_node, other in neighbors:
        for term in other.required_anti_affinity:
            if _in_same_topology(node, other_node, term) and term.selects(pod, other.metadata.namespace):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _in_same_topology(node: Node, other: Node, term: PodAffinityTerm) -> bool:
    """Return whether two nodes have equal values of the term's topology key."""
    value = node.metadata.labels.get(term.topology_key)
    return value is not None and value == other.metadata.labels.get(term.topology_key)


def select_node_fields(node: Node) -> tuple[object, ...]:
    """Return the fields of a node on which scheduling depends; heartbeats are omitted."""
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    plugins = {name: amount for name, amount in node.status.allocatable.items() if is_extended(name)}
    features = node.status.declared_features
    return node.metadata.uid, node.metadata.labels, node.spec, ready, plugins, features
