"""The parts of objects that scheduling depends on. A change of any other part wakes no pod."""

from dradriver.control.extended import is_extended
from dradriver.model.core.workload import Node, Pod

__all__ = ["asked_by", "offered_by"]


def asked_by(pod: Pod) -> tuple[object, ...]:
    """Return the relevant parts of a pod, without the status that the scheduler or the kubelet reports."""
    return (
        pod.metadata.uid,
        pod.metadata.deletion_timestamp,
        pod.spec,
        pod.status.resource_claim_statuses,
        pod.finished,
    )


def offered_by(node: Node) -> tuple[object, ...]:
    """Return the relevant parts of a node, without heartbeats."""
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    plugins = {name: amount for name, amount in node.status.allocatable.items() if is_extended(name)}
    features = node.status.declared_features
    return node.metadata.uid, node.metadata.labels, node.spec, ready, plugins, features
