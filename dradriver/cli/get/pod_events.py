"""Messages of a pod's events, for a pod whose status gives no reason."""

from collections.abc import Sequence

from msgspec.structs import replace

from dradriver.cli.get.why import knows_no_reason
from dradriver.cli.world import PodEvent
from dradriver.errors import DraError
from dradriver.kube import EVENTS, Client
from dradriver.model.core.workload import Pod

__all__ = ["with_events"]


async def with_events(client: Client, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods. A pod whose status gives no reason gets the message of its last warning.

    Events are read only in this case. Without the right to read events, the pods are returned unchanged.
    """
    puzzling = {pod.metadata.uid: pod for pod in pods if knows_no_reason(pod)}
    said = await _last_warnings(client, list(puzzling.values())) if puzzling else {}
    return [
        replace(pod, status=replace(pod.status, message=said[pod.metadata.uid]))
        if pod.metadata.uid in said
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
    return {event.involved_object.uid: event.message for event in sorted(events, key=lambda each: each.when)}
