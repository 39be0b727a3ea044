"""Executes create, replace, patch and apply: decode, prepare, validate, record the owners of fields, store.

Every function runs to its end without yielding to the event loop, so the values that it read are still current
when it writes. Nothing is stored before every check has passed. If the process dies after the object is stored,
the write is permanent and the client finds it at its next read.
"""

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from dradriver.cluster.apiserver.access.authorization import admit_pod, admit_slice
from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.fields import apply, ownership
from dradriver.cluster.apiserver.fields.field_sets import find_duplicates, format_path
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, copy, dig
from dradriver.cluster.apiserver.kinds.resources import NAMESPACES, ServedResource
from dradriver.cluster.apiserver.quota.admission import admit
from dradriver.cluster.apiserver.requests import patches
from dradriver.cluster.apiserver.requests.decoding import (
    DecodedObject,
    conform_object,
    decode,
    parse_body,
    parse_media_type,
    to_served,
)
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.schema.decode import thaw
from dradriver.cluster.apiserver.status import (
    Cause,
    StatusError,
    Subject,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    stale,
    too_large,
    unsupported_media_type,
)
from dradriver.cluster.apiserver.storage.store import Stored
from dradriver.cluster.apiserver.strategies import Strategy, strategy_of
from dradriver.cluster.apiserver.strategies.base import keep, keep_metadata
from dradriver.cluster.apiserver.structural import find_apply_problems
from dradriver.cluster.apiserver.validation import metadata as metadata_rules

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_SET_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)
_NAME_ATTEMPTS = 8
_UNSET = (None, "", "0")
_MAX_OBJECT_BYTES = 1536 * 1024
"""Maximum size of an object in bytes of JSON, as etcd's default.

Writes of the server's controllers have no limit, because they add little.
"""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: a status code, the current object, and warnings."""

    code: int
    stored: Stored
    warnings: list[str] = field(default_factory=list)


def create(
    server: ServerParts,
    request: ApiRequest,
    decoded: DecodedObject | None = None,
    *,
    applied: apply.ApplyResult | None = None,
) -> WriteResult:
    """Store a new object.

    Raises:
        StatusError: the request is rejected, and nothing is stored.
    """
    target = request.target
    resource, strategy = target.resource, strategy_of(target.resource)
    decoded = decoded or decode(request)
    obj = decoded.object
    metadata = obj["metadata"]
    _set_namespace(request, metadata)
    if metadata.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    admit_slice(request.user, target, obj)
    if target.namespace:
        _check_namespace(server, request, metadata.get("name") or metadata.get("generateName", ""))
    for name in (*_SET_BY_SERVER, "resourceVersion", "selfLink"):
        metadata.pop(name, None)
    _generate_name(server, request, metadata)
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": server.time()}
    if resource.generation:
        metadata["generation"] = 1
    context = server.context(request.user, "create")
    strategy.prepare(context, obj, None)
    causes = metadata_rules.check_new_metadata(metadata, strategy.check_name)
    if resource.has_kubernetes_finalizers:
        causes += metadata_rules.check_finalizers(metadata)
    causes += strategy.validate(context, obj, None)
    if causes:
        raise invalid(resource.kind_subject(metadata.get("name", "")), causes)
    if server.store.get(resource.storage, target.namespace, metadata["name"]) is not None:
        raise already_exists(resource.subject(metadata["name"]))
    admit(server, request, obj)
    ownership.record_owners(request, None, obj, applied, server.time())
    return WriteResult(201, _store(server, request, obj), [*decoded.warnings, *strategy.warnings(obj)])


def _set_namespace(request: ApiRequest, metadata: Object) -> None:
    namespace = request.target.namespace
    if namespace and metadata.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    elif request.target.resource.namespaced:
        raise bad_request("an empty namespace may not be set during creation")
    else:
        metadata.pop("namespace", None)


def _check_namespace(server: ServerParts, request: ApiRequest, name: str) -> None:
    namespace = request.target.namespace
    stored = server.store.get(NAMESPACES, "", namespace)
    if stored is None:
        raise not_found(server.registry.preferred()[0].subject(namespace))
    if stored.object["metadata"].get("deletionTimestamp"):
        reason = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(
            "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
        )
        raise forbidden(request.target.resource.subject(name), reason, [cause])


def _generate_name(server: ServerParts, request: ApiRequest, metadata: Object) -> None:
    prefix = metadata.get("generateName", "")
    if metadata.get("name") or not prefix:
        return
    storage = request.target.resource.storage
    for _ in range(_NAME_ATTEMPTS):
        letters = "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
        metadata["name"] = prefix[:58] + letters
        if server.store.get(storage, request.target.namespace, metadata["name"]) is None:
            return


def replace(server: ServerParts, request: ApiRequest) -> WriteResult:
    """Replace an object or its status.

    Raises:
        StatusError: the request is rejected, and nothing is stored.
    """
    decoded = decode(request)
    old = server.existing(request)
    name = decoded.object["metadata"].get("name", "")
    if name and name != request.target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.target.name})"
        )
    if request.target.resource.schema is None and decoded.object["metadata"].get("resourceVersion") in _UNSET:
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise invalid(request.target.resource.subject(request.target.name), [cause])
    return _update(server, request, old, decoded)


def patch(server: ServerParts, request: ApiRequest) -> WriteResult:
    """Patch an object or its status with one of the four types of patch.

    Raises:
        StatusError: the request is rejected, and nothing is stored.
    """
    kind = parse_media_type(request.content_type)
    resource = request.target.resource
    if kind not in _PATCHES or (kind == STRATEGIC_PATCH and resource.schema is None):
        raise unsupported_media_type(
            ", ".join(each for each in _PATCHES if each != STRATEGIC_PATCH or resource.schema)
        )
    if kind == APPLY_PATCH:
        return _apply(server, request)
    old = server.existing(request)
    current = to_served(resource, old.view)
    decoded = conform_object(request, resource, _apply_patch(request, kind, current), patched=current)
    return _update(server, request, old, decoded)


def _apply_patch(request: ApiRequest, kind: str, current: Object) -> JsonValue:
    resource = request.target.resource
    if kind == JSON_PATCH:
        operations = patches.parse_values(resource.schema, parse_body(request.body, None), request.body)
        return patches.apply_json_patch(current, operations)
    if kind == MERGE_PATCH:
        patch_object = parse_body(request.body, resource.schema)
        if not isinstance(patch_object, dict):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal array into Go value of "
                "type map[string]interface {}"
            )
        return patches.apply_merge_patch(current, patch_object)
    patch_object = parse_body(request.body, None)
    if not isinstance(patch_object, dict) or resource.schema is None:
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return patches.apply_strategic_merge(resource.schema, thaw(current), patch_object)


def _apply(server: ServerParts, request: ApiRequest) -> WriteResult:
    target, resource = request.target, request.target.resource
    if not request.query.get("fieldManager"):
        raise invalid(
            Subject("meta.k8s.io", "PatchOptions"),
            [Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")],
        )
    config = parse_body(request.body, None)
    if isinstance(config, dict) and dig(config, "metadata", "managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    partial = conform_object(request, resource, config, complete=False)
    if problems := _find_schema_problems(resource, partial):
        raise _schema_error(request, config, problems)
    wanted = ownership.select_writable(request, thaw(partial.object))
    if wanted["metadata"].get("name", target.name) != target.name:
        raise bad_request(
            f"the name of the object ({wanted['metadata']['name']}) does not match the "
            f"name on the URL ({target.name})"
        )
    old = server.store.get(resource.storage, target.namespace, target.name)
    manager = ownership.get_manager(request)
    if old is None:
        if target.subresource:
            raise not_found(resource.subject(target.name))
        decoded = conform_object(request, resource, config)
        decoded.object["metadata"]["name"] = target.name
        applied = apply.apply(resource.type, {"metadata": {}}, wanted, manager, force=True)
        return create(server, request, decoded, applied=applied)
    live = thaw(old.object)
    applied = apply.apply(resource.type, live, wanted, manager, force=request.read_flag("force"))
    # If an apply only changes owners, the stored bytes are kept.
    same = applied.object == live
    merged = (
        DecodedObject(old.object)
        if same
        else conform_object(request, resource, to_served(resource, applied.object))
    )
    return _update(server, request, old, merged, applied)


def _find_schema_problems(resource: ServedResource, partial: DecodedObject) -> list[str]:
    schema = resource.schema
    if schema is None:
        structure = resource.structure
        return find_apply_problems(structure.schema, partial.object) if structure is not None else []
    problems = [f".{path}: field not declared in schema" for path in partial.unknown]
    twice = find_duplicates(schema, thaw(partial.object))
    return problems + [
        f"{format_path(path[:-1])}: duplicate entries for key {format_path(path[-1:])}" for path in twice
    ]


def _schema_error(request: ApiRequest, config: JsonValue, problems: list[str]) -> StatusError:
    resource, name = request.target.resource, dig(config, "metadata", "name") or ""
    what = f"{dig(config, 'metadata', 'namespace') or ''}/{name}; {resource.api_version}, Kind={resource.kind}"
    listed = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in problems)
    return StatusError(500, "", f"failed to create typed patch object ({what}): {listed}")


def _update(
    server: ServerParts,
    request: ApiRequest,
    old: Stored,
    decoded: DecodedObject,
    applied: apply.ApplyResult | None = None,
) -> WriteResult:
    obj, before = decoded.object, old.object
    obj["metadata"] = dict(obj["metadata"])
    _check_preconditions(request, obj["metadata"], old)
    _keep_metadata(obj["metadata"], before["metadata"])
    strategy = strategy_of(request.target.resource)
    # Strategies change their argument. Therefore the object is copied: parts that the patch did not change are
    # still parts of the stored object. The entries of managed fields are large, and no code changes them.
    metadata = dict(obj["metadata"])
    owners = {key: metadata.pop(key) for key in ("managedFields",) if key in metadata}
    obj = copy({**obj, "metadata": metadata})
    obj["metadata"] |= owners
    warnings = [*decoded.warnings, *_prepare(server, request, strategy, obj, before)]
    admit(server, request, obj, before)
    ownership.record_owners(request, before, obj, applied, server.time())
    if _is_unchanged(obj, before):
        return WriteResult(200, old, warnings)
    if _is_ready_to_delete(obj):
        gone = old if request.dry_run else server.store.delete(old)
        return WriteResult(200, Stored(gone.storage, gone.revision, obj, gone.schema), warnings)
    return WriteResult(200, _store(server, request, obj), warnings)


def _prepare(
    server: ServerParts, request: ApiRequest, strategy: Strategy, obj: Object, before: Object
) -> list[str]:
    resource = request.target.resource
    context = server.context(request.user, request.target.verb)
    causes = metadata_rules.check_metadata_update(obj["metadata"], before["metadata"])
    if resource.has_kubernetes_finalizers:
        causes += metadata_rules.check_finalizers(obj["metadata"])
    if request.target.subresource == "status":
        strategy.prepare_status(context, obj, before)
        admit_pod(request.user, request.target, before, obj)
        causes += strategy.validate_status(context, obj, before)
    elif request.target.subresource == "finalize":
        keep_metadata(obj, before)
        keep(obj, before, "status")
    else:
        strategy.prepare(context, obj, before)
        causes += strategy.validate(context, obj, before)
        if resource.generation and _without_status(obj) != _without_status(before):
            obj["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
    if causes:
        raise invalid(resource.kind_subject(before["metadata"]["name"]), causes)
    return strategy.warnings(obj)


def _without_status(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def _check_preconditions(request: ApiRequest, metadata: Object, old: Stored) -> None:
    subject = request.target.resource.subject(request.target.name)
    wanted, uid = metadata.get("resourceVersion", ""), metadata.get("uid", "")
    actual = old.object["metadata"]["uid"]
    if uid and uid != actual:
        reason = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise conflict(subject, reason)
    if wanted not in {"", "0", str(old.revision)}:
        raise stale(subject)
    if metadata.get("namespace", request.target.namespace) != request.target.namespace:
        raise bad_request("the namespace of the object does not match the namespace on the URL")


def _keep_metadata(metadata: Object, before: Object) -> None:
    for name in ("name", "namespace", *_SET_BY_SERVER, "resourceVersion", "generateName"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)


def _is_unchanged(obj: Object, before: Object) -> bool:
    """Return whether a write changes nothing.

    A new owner of a field is a change; a new time of an owner is not.
    """

    def comparable(each: Object) -> Object:
        metadata = {key: value for key, value in each["metadata"].items() if value not in ({}, [])}
        entries = metadata.pop("managedFields", [])
        owners = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
        rest = {key: value for key, value in each.items() if value != {}}
        return {**rest, "metadata": {**metadata, "managedFields": owners}}

    return comparable(obj) == comparable(before)


def _is_ready_to_delete(obj: Object) -> bool:
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds", 0) > 0
    return bool(metadata.get("deletionTimestamp")) and not waits and not dig(obj, "spec", "finalizers")


def _store(server: ServerParts, request: ApiRequest, obj: Object) -> Stored:
    resource = request.target.resource

    def check(stored: Stored) -> None:
        if len(stored.raw) > _MAX_OBJECT_BYTES:
            raise too_large(f"the limit for an object is {_MAX_OBJECT_BYTES} bytes")

    if not request.dry_run:
        return server.store.put(resource.storage, obj, check)
    candidate = Stored(resource.storage, server.store.revision, obj, resource.schema)
    check(candidate)
    return candidate


def update_as_system(server: ServerParts, old: Stored, change: Callable[[Object], None]) -> Stored:
    """Change an object for one of the server's own controllers. If its deletion can now finish, delete it."""
    obj = copy(old.object)
    change(obj)
    if obj == old.object:
        return old
    return server.store.delete(old) if _is_ready_to_delete(obj) else server.store.put(old.storage, obj)
