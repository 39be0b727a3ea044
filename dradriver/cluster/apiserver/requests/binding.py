"""pods/binding: the scheduler's request that sets a pod's node."""

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import PODS
from dradriver.cluster.apiserver.requests.decoding import read_options
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.requests.writes import system_update
from dradriver.cluster.apiserver.status import About, Cause, bad_request, conflict, invalid, not_found


def bind(server: ServerParts, request: ApiRequest) -> None:
    """Set a pod's node, once.

    Raises:
        StatusError: 404 without the pod, 409 for a pod that is bound, deleted or gated, 422 without a node.
    """
    binding = read_options(request.body, request.content_type, "core.Binding")
    name = request.target.name or dig(binding, "metadata", "name") or ""
    node = dig(binding, "target", "name") or ""
    about = request.target.resource.about(name)
    if not node:
        raise invalid(
            request.target.resource.about_kind(name),
            [Cause("FieldValueRequired", "Required value", "target.name")],
        )
    if dig(binding, "target", "kind") not in {None, "", "Node"}:
        raise bad_request("target.kind must be Node")
    stored = server.store.get(PODS, request.target.namespace, name)
    if stored is None:
        raise not_found(about)
    pod = stored.object
    _check(about, pod, binding)
    if request.dry_run:
        return

    def change(obj: Object) -> None:
        obj["spec"]["nodeName"] = node
        annotations = dig(binding, "metadata", "annotations")
        if annotations:
            obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **annotations}
        status = obj.setdefault("status", {})
        others = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": server.time()}
        status["conditions"] = [*others, scheduled]
        status.pop("nominatedNodeName", None)  # ClearingNominatedNodeNameAfterBinding, on since 1.35

    system_update(server, stored, change)


def _check(about: About, pod: Object, binding: Object) -> None:
    name = pod["metadata"]["name"]
    uid = dig(binding, "metadata", "uid")
    if uid and uid != pod["metadata"]["uid"]:
        raise conflict(
            about,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}",
        )
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(about, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict(about, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(about, f"pod {name} has non-empty .spec.schedulingGates")
