"""Whether a node suits a pod apart from devices: readiness, cordon, selector and affinity, taints.

These are the filters of kube-scheduler that a pod with devices needs. Resources other than devices are not
counted. `pod_anti_affinity` keeps pods apart; nothing keeps them together.
"""

from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Node, NodeTaint, Pod

__all__ = ["affinity", "ready", "taints", "unschedulable"]

_UNSCHEDULABLE = NodeTaint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def ready(_pod: Pod, node: Node) -> str | None:
    """Return the reason if the node's Ready condition is not True.

    In a full cluster, a taint has this effect.
    """
    said = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    return None if said == "True" else "node(s) were not ready"


def unschedulable(pod: Pod, node: Node) -> str | None:
    """Return the reason if the node is cordoned and the pod does not tolerate that."""
    if not node.spec.unschedulable or _tolerated(_UNSCHEDULABLE, pod):
        return None
    return "node(s) were unschedulable"


def affinity(pod: Pod, node: Node) -> str | None:
    """Return the reason if the node does not match the pod's node selector or its required node affinity."""
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
    """Return the reason if the node has a NoSchedule or NoExecute taint that the pod does not tolerate."""
    for taint in node.spec.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not _tolerated(taint, pod):
            return "node(s) had untolerated taint(s)"
    return None


def _tolerated(taint: NodeTaint, pod: Pod) -> bool:
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
