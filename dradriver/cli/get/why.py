"""Why a pod does not run, from its status."""

from typing import Final

from dradriver.model.core.workload import Pod

__all__ = ["knows_no_reason", "why_pending"]

DELETED: Final = "is being deleted: waits for its containers to end, and for drivers to unprepare its claims"
NO_SANDBOX: Final = (
    "claims, volumes or network are not ready on its node: kubectl describe pod has the kubelet's words"
)


def why_pending(pod: Pod) -> str:
    """Return why the pod is not ready. A message of a container takes precedence over the pod's conditions."""
    if pod.metadata.deletion_timestamp:
        return DELETED
    if pod.status.phase == "Succeeded" or _is_ready(pod):
        return "-"
    waiting = (each.get("state", {}).get("waiting") or {} for each in pod.status.container_statuses)
    if message := next((state["message"] for state in waiting if state.get("message")), ""):
        return str(message)
    unmet = {c.type: c.message or c.reason for c in pod.status.conditions if c.status == "False"}
    # This condition has no reason, and it stays on a pod that has failed.
    if unmet.pop("PodReadyToStartContainers", None) and pod.status.phase == "Pending":
        return pod.status.message or NO_SANDBOX
    return pod.status.message or next((said for said in unmet.values() if said), "-")


def _is_ready(pod: Pod) -> bool:
    ready = next((each.status for each in pod.status.conditions if each.type == "Ready"), "True")
    return pod.status.phase == "Running" and ready == "True"


def knows_no_reason(pod: Pod) -> bool:
    """Return whether the status shows that the pod is not ready, but not why."""
    return why_pending(pod) == NO_SANDBOX
