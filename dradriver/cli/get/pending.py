"""Looks up in events why a pod is not ready, if its status does not have the reason."""

from collections.abc import Sequence

from msgspec.structs import replace

from dradriver.cli.world import PodEvent
from dradriver.errors import DraError
from dradriver.kube import EVENTS, Client
from dradriver.model.core.workload import Pod
from dradriver.overview import NO_SANDBOX, pending_reason

__all__ = ["with_events"]


async def with_events(client: Client, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods. If a pod's status has no reason, the pod gets the message of its last warning event.

    Events are read only if a pod needs them. Without the permission to read events, the result is unchanged.

    Args:
        client: client of the cluster.
        pods: the pods.
    """
    unexplained = {pod.metadata.uid: pod for pod in pods if pending_reason(pod) == NO_SANDBOX}
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
