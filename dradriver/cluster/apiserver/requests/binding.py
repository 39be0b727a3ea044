"""pods/binding: the scheduler's request that sets a pod's node."""

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import PODS
from dradriver.cluster.apiserver.requests.decoding import read_options
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.requests.writes import update_as_system
from dradriver.cluster.apiserver.status import Cause, Subject, bad_request, conflict, invalid, not_found


def bind(server: ServerParts, request: ApiRequest) -> None:
    """Set a pod's node. It can be set only once.

    Raises:
        StatusError: 404 if the pod does not exist; 409 if the pod is bound, deleted or gated, or is not the
            pod or the version that the request names; 422 if the request names no node.
    """
    binding = read_options(request.body, request.content_type, "core.Binding")
    name = request.target.name or dig(binding, "metadata", "name") or ""
    node = dig(binding, "target", "name") or ""
    subject = request.target.resource.subject(name)
    if not node:
        raise invalid(
            request.target.resource.kind_subject(name),
            [Cause("FieldValueRequired", "Required value", "target.name")],
        )
    if dig(binding, "target", "kind") not in {None, "", "Node"}:
        raise bad_request("target.kind must be Node")
    stored = server.store.get(PODS, request.target.namespace, name)
    if stored is None:
        raise not_found(subject)
    pod = stored.object
    _check(subject, pod, binding)
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

    update_as_system(server, stored, change)


def _check(subject: Subject, pod: Object, binding: Object) -> None:
    name = pod["metadata"]["name"]
    for label, field in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        wanted, stored = dig(binding, "metadata", field), pod["metadata"][field]
        if wanted and wanted != stored:
            raise conflict(
                subject,
                f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {stored}",
            )
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(subject, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict(subject, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(subject, f"pod {name} has non-empty .spec.schedulingGates")
