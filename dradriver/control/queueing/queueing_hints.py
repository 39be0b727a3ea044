"""What of an object scheduling depends on: a change of anything else wakes no pod."""

from dradriver.control.extended import is_extended
from dradriver.model.core.workload import Node, Pod

__all__ = ["asked_by", "offered_by"]


def asked_by(pod: Pod) -> tuple[object, ...]:
    """Of a pod; neither what we report ourselves nor what only its kubelet says."""
    return (
        pod.metadata.uid,
        pod.metadata.deletion_timestamp,
        pod.spec,
        pod.status.resource_claim_statuses,
        pod.finished,
    )


def offered_by(node: Node) -> tuple[object, ...]:
    """Of a node; heartbeats do not count."""
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    plugins = {name: amount for name, amount in node.status.allocatable.items() if is_extended(name)}
    features = node.status.declared_features
    return node.metadata.uid, node.metadata.labels, node.spec, ready, plugins, features
