"""The reason why a pod is not ready, from its status or its events."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from dradriver.cli.world import PodEvent
from dradriver.errors import DraError
from dradriver.kube import EVENTS, Client
from dradriver.model.core.workload import Pod

__all__ = ["pending_reason", "with_events"]

_DELETED: Final = "is being deleted: waits until its containers end and drivers unprepare its claims"
_NO_SANDBOX: Final = (
    "claims, volumes or network are not ready on the node: kubectl describe pod shows the kubelet's events"
)


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
    waiting = (each.get("state", {}).get("waiting") or {} for each in pod.status.container_statuses)
    if message := next((state["message"] for state in waiting if state.get("message")), ""):
        return str(message)
    unmet = {c.type: c.message or c.reason for c in pod.status.conditions if c.status == "False"}
    # This condition gives no reason, and a failed pod keeps it.
    if unmet.pop("PodReadyToStartContainers", None) and pod.status.phase == "Pending":
        return pod.status.message or _NO_SANDBOX
    return pod.status.message or next(filter(None, unmet.values()), "-")


def _is_ready(pod: Pod) -> bool:
    ready = next((each.status for each in pod.status.conditions if each.type == "Ready"), "True")
    return pod.status.phase == "Running" and ready == "True"


async def with_events(client: Client, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods. If a pod's status has no reason, the pod gets the message of its last warning event.

    Events are read only if a pod needs them. Without the permission to read events, the result is unchanged.

    Args:
        client: client of the cluster.
        pods: the pods.
    """
    unexplained = {pod.metadata.uid: pod for pod in pods if pending_reason(pod) == _NO_SANDBOX}
    messages = await _last_warnings(client, list(unexplained.values())) if unexplained else {}
    return [
        replace(pod, status=replace(pod.status, message=messages[pod.metadata.uid]))
        if pod.metadata.uid in messages
        else pod
        for pod in pods
    ]


async def _last_warnings(client: Client, pods: Sequence[Pod]) -> dict[str, str]:
    namespaces = {pod.metadata.namespace for pod in pods}
    fields = "type=Warning,involvedObject.kind=Pod"
    if len(pods) == 1:
        fields += f",involvedObject.uid={pods[0].metadata.uid}"
    try:
        namespace = namespaces.pop() if len(namespaces) == 1 else ""
        events = (await client.list(EVENTS, namespace, into=PodEvent, fields=fields)).items
    except DraError:
        return {}
    return {
        event.involved_object.uid: event.message for event in sorted(events, key=lambda each: each.last_seen)
    }
