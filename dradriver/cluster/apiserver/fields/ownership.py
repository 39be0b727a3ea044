"""Determines who owns the fields of a request: the manager, and the fields that the request's path may write.

A resource with a status subresource has two request paths. Fields that a writer sends to the wrong path are
ignored, so the writer does not own them.
"""

from dradriver.cluster.apiserver.fields import apply
from dradriver.cluster.apiserver.fields.field_sets import Path
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.requests.decoding import parse_media_type
from dradriver.cluster.apiserver.requests.parse import ApiRequest

APPLY_PATCH = "application/apply-patch+yaml"
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")


def get_manager(request: ApiRequest) -> apply.Manager:
    """Return the manager of a request."""
    operation = "Apply" if parse_media_type(request.content_type) == APPLY_PATCH else "Update"
    target = request.target
    return apply.Manager(request.manager, operation, target.resource.api_version, target.subresource)


def select_writable(request: ApiRequest, config: Object) -> Object:
    """Return the part of an applied configuration that the request's path may write."""
    if request.target.subresource == "status":
        metadata = {key: config["metadata"][key] for key in _IDENTITY if key in config["metadata"]}
        head = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": metadata}
        return {**head, "status": config["status"]} if "status" in config else head
    if "status" in request.target.resource.subresources:
        return {key: value for key, value in config.items() if key != "status"}
    return config


def record_owners(
    request: ApiRequest, before: Object | None, obj: Object, applied: apply.ApplyResult | None, now: str
) -> None:
    """Record in `obj` (changed in place) the owners of its fields after a write."""
    target = request.target
    if target.resource.renames:
        return  # the fields of events have two names, and clients do not apply events
    manager = get_manager(request)
    if applied is not None:
        apply.record_apply(obj, applied, manager, now)
        return

    def written(path: Path) -> bool:
        status = path[0] == "f:status"
        return status == (target.subresource == "status") or "status" not in target.resource.subresources

    entries = apply.record_update(target.resource.type, before, obj, manager, now, written)
    apply.set_entries(obj, entries)
