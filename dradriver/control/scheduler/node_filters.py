"""Whether a node suits a pod, devices aside: readiness, cordon, selector and affinity, taints.

The part of kube-scheduler's filters that a pod with devices can't do without. Resources other than devices are
not counted; pods are kept apart by `pod_anti_affinity`, and never kept together.
"""

from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Node, NodeTaint, Pod

__all__ = ["affinity", "ready", "taints", "unschedulable"]

_UNSCHEDULABLE = NodeTaint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def ready(_pod: Pod, node: Node) -> str | None:
    """A node that says of itself that it is not ready takes no pod (elsewhere a taint would say so)."""
    said = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    return None if said == "True" else "node(s) were not ready"


def unschedulable(pod: Pod, node: Node) -> str | None:
    """A cordoned node takes only pods that tolerate that."""
    if not node.spec.unschedulable or _tolerated(_UNSCHEDULABLE, pod):
        return None
    return "node(s) were unschedulable"


def affinity(pod: Pod, node: Node) -> str | None:
    """The pod's node selector and its required node affinity."""
    labels = node.metadata.labels
    wanted = _required(pod)
    selected = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    if selected and (wanted is None or wanted.matches(node.metadata.name, labels)):
        return None
    return "node(s) didn't match Pod's node affinity/selector"


def _required(pod: Pod) -> NodeSelector | None:
    near = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return near.required_during_scheduling_ignored_during_execution if near else None


def taints(pod: Pod, node: Node) -> str | None:
    """Taints with the effect NoSchedule or NoExecute that the pod does not tolerate."""
    for taint in node.spec.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not _tolerated(taint, pod):
            return "node(s) had untolerated taint(s)"
    return None


def _tolerated(taint: NodeTaint, pod: Pod) -> bool:
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
