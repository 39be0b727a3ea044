"""Finds the pods and claims that wait, and the reasons that the scheduler and the kubelet report."""

from typing import Final

from dradriver.model.core.workload import Pod
from dradriver.model.extended_names import is_extended
from dradriver.model.resource.claim import ResourceClaim
from dradriver.overview.values import Waiting

__all__ = ["NO_SANDBOX", "pending_reason", "waiting_claim", "waiting_pod"]

_DELETED: Final = "is being deleted: waits until its containers end and drivers unprepare its claims"
NO_SANDBOX: Final = (
    "claims, volumes or network are not ready on the node: kubectl describe pod shows the kubelet's events"
)
"""The reason of a pod whose status has no reason. The kubelet's events can have one."""
_NO_POD: Final = "not allocated: no known pod uses it"


def pending_reason(pod: Pod) -> str:
    """Return why the pod is not ready, or `-`.

    Messages of containers take precedence over conditions of the pod.

    Args:
        pod: the pod.
    """
    if pod.metadata.deletion_timestamp:
        return _DELETED
    if pod.status.phase == "Succeeded" or _is_ready(pod):
        return "-"
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = (each.get("state", {}).get("waiting") or {} for each in statuses)
    if message := next((state["message"] for state in waiting if state.get("message")), ""):
        return str(message)
    unmet = {c.type: c.message or c.reason for c in pod.status.conditions if c.status == "False"}
    # This condition gives no reason, and a failed pod keeps it.
    if unmet.pop("PodReadyToStartContainers", None) and pod.status.phase == "Pending":
        return pod.status.message or NO_SANDBOX
    return pod.status.message or next(filter(None, unmet.values()), "-")


def _is_ready(pod: Pod) -> bool:
    ready = next((each.status for each in pod.status.conditions if each.type == "Ready"), "True")
    return pod.status.phase == "Running" and ready == "True"


def waiting_pod(pod: Pod) -> Waiting | None:
    """Return what a pod waits for; None if the pod runs, is deleted, or needs no devices.

    Args:
        pod: the pod. A pod that requests an extended resource needs devices. Its claim exists only after the
            scheduler has found devices.

    Source: KEP-5004.
    """
    is_pending = pod.status.phase in {"", "Pending"} and pod.metadata.deletion_timestamp is None
    if not (is_pending and (pod.spec.resource_claims or _requests_extended_resource(pod))):
        return None
    reason = pending_reason(pod)
    if reason == "-":
        reason = "no reason is reported yet"
    return Waiting("Pod", pod.ref, pod.metadata.creation_timestamp, reason, pod.spec.node_name)


def _requests_extended_resource(pod: Pod) -> bool:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(
        amount.nano and is_extended(name)
        for container in containers
        for amounts in (container.resources.requests, container.resources.limits)
        for name, amount in amounts.items()
    )


def waiting_claim(claim: ResourceClaim, *, is_used: bool) -> Waiting | None:
    """Return what a claim waits for; None if the claim is allocated or deleted, or if a pod reports the reason.

    Args:
        claim: the claim.
        is_used: whether a known pod uses the claim.
    """
    if is_used or claim.allocation is not None or claim.metadata.deletion_timestamp is not None:
        return None
    return Waiting("ResourceClaim", claim.ref, claim.metadata.creation_timestamp, _NO_POD)
