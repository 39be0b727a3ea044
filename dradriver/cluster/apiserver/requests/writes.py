"""Create, replace, patch, apply: decode, prepare, validate, record the owners of fields, store.

Every function runs to its end without yielding to the event loop, so the values that it read are still current
when it writes. Nothing is stored before every check has passed. If the process dies after the store, the write
is permanent and the client sees it at its next read.
"""

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from dradriver.cluster.apiserver.access.authorization import admit_pod, admit_slice
from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.fields import apply, ownership
from dradriver.cluster.apiserver.fields.field_sets import readable, repeated
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, copy, dig
from dradriver.cluster.apiserver.kinds.resources import NAMESPACES
from dradriver.cluster.apiserver.quota.admission import admit
from dradriver.cluster.apiserver.requests import patches
from dradriver.cluster.apiserver.requests.decoding import Decoded, decode, load, media_type, shape, to_view
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.schema.decode import thaw
from dradriver.cluster.apiserver.status import (
    About,
    Cause,
    StatusError,
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
_NAME_TRIES = 8
_LARGEST_OBJECT = 1536 * 1024
"""Bytes of JSON: etcd's default. Writes of the server's controllers, which add little, have no limit."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: a status code, the current object, and warnings."""

    code: int
    stored: Stored
    warnings: list[str] = field(default_factory=list)


def create(
    server: ServerParts,
    request: ApiRequest,
    decoded: Decoded | None = None,
    *,
    applied: apply.Applied | None = None,
) -> WriteResult:
    """Store a new object.

    Raises:
        StatusError: any refusal; nothing is stored then.
    """
    target = request.target
    resource, strategy = target.resource, strategy_of(target.resource)
    decoded = decoded or decode(request)
    obj = decoded.object
    metadata = obj["metadata"]
    _place(request, metadata)
    if metadata.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    admit_slice(request.user, target, obj)
    if target.namespace:
        _check_namespace(server, request, metadata.get("name") or metadata.get("generateName", ""))
    for name in (*_SET_BY_SERVER, "resourceVersion", "selfLink"):
        metadata.pop(name, None)
    _name(server, request, metadata)
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": server.time()}
    if resource.generation:
        metadata["generation"] = 1
    context = server.context(request.user, "create")
    strategy.prepare_create(context, obj)
    causes = metadata_rules.create(metadata, strategy.check_name)
    if resource.schema is not None:
        causes += metadata_rules.finalizers(metadata)
    causes += strategy.validate_create(context, obj)
    if causes:
        raise invalid(resource.about_kind(metadata.get("name", "")), causes)
    if server.store.get(resource.storage, target.namespace, metadata["name"]) is not None:
        raise already_exists(resource.about(metadata["name"]))
    admit(server, request, obj)
    ownership.record(request, None, obj, applied, server.time())
    return WriteResult(201, _store(server, request, obj), [*decoded.warnings, *strategy.warnings(obj)])


def _place(request: ApiRequest, metadata: Object) -> None:
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
        raise not_found(server.registry.preferred()[0].about(namespace))
    if stored.object["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(
            "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
        )
        raise forbidden(request.target.resource.about(name), why, [cause])


def _name(server: ServerParts, request: ApiRequest, metadata: Object) -> None:
    prefix = metadata.get("generateName", "")
    if metadata.get("name") or not prefix:
        return
    storage = request.target.resource.storage
    for _ in range(_NAME_TRIES):
        letters = "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
        metadata["name"] = prefix[:58] + letters
        if server.store.get(storage, request.target.namespace, metadata["name"]) is None:
            return


def replace(server: ServerParts, request: ApiRequest) -> WriteResult:
    """Replace an object or its status.

    Raises:
        StatusError: any refusal; nothing is stored then.
    """
    decoded = decode(request)
    old = server.existing(request)
    name = decoded.object["metadata"].get("name", "")
    if name and name != request.target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.target.name})"
        )
    return _update(server, request, old, decoded)


def patch(server: ServerParts, request: ApiRequest) -> WriteResult:
    """Patch an object or its status in one of the four ways.

    Raises:
        StatusError: any refusal; nothing is stored then.
    """
    kind = media_type(request.content_type)
    resource = request.target.resource
    if kind not in _PATCHES or (kind == STRATEGIC_PATCH and resource.schema is None):
        raise unsupported_media_type(
            ", ".join(each for each in _PATCHES if each != STRATEGIC_PATCH or resource.schema)
        )
    if kind == APPLY_PATCH:
        return _apply(server, request)
    old = server.existing(request)
    decoded = shape(request, resource, _patched(request, kind, to_view(resource, old.view)), patched=True)
    return _update(server, request, old, decoded)


def _patched(request: ApiRequest, kind: str, current: Object) -> JsonValue:
    resource = request.target.resource
    if kind == JSON_PATCH:
        operations = patches.typed(resource.schema, load(request.body, None), request.body)
        return patches.json_patch(current, operations)
    if kind == MERGE_PATCH:
        patch_object = load(request.body, resource.schema)
        if not isinstance(patch_object, dict):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal array into Go value of "
                "type map[string]interface {}"
            )
        return patches.merge_patch(current, patch_object)
    patch_object = load(request.body, None)
    if not isinstance(patch_object, dict) or resource.schema is None:
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return patches.strategic_merge(resource.schema, thaw(current), patch_object)


def _apply(server: ServerParts, request: ApiRequest) -> WriteResult:
    target, resource = request.target, request.target.resource
    if not request.query.get("fieldManager"):
        raise invalid(
            About("meta.k8s.io", "PatchOptions"),
            [Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")],
        )
    config = load(request.body, None)
    if isinstance(config, dict) and dig(config, "metadata", "managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    partial = shape(request, resource, config, complete=False)
    if resource.schema is not None and (problems := _not_typed(resource.schema, partial)):
        raise _untyped(request, config, problems)
    wanted = ownership.scope(request, thaw(partial.object))
    if wanted["metadata"].get("name", target.name) != target.name:
        raise bad_request(
            f"the name of the object ({wanted['metadata']['name']}) does not match the "
            f"name on the URL ({target.name})"
        )
    old = server.store.get(resource.storage, target.namespace, target.name)
    manager = ownership.manager_of(request)
    if old is None:
        if target.subresource:
            raise not_found(resource.about(target.name))
        decoded = shape(request, resource, config)
        decoded.object["metadata"]["name"] = target.name
        applied = apply.apply(resource.schema, {"metadata": {}}, wanted, manager, force=True)
        return create(server, request, decoded, applied=applied)
    live = thaw(old.object)
    applied = apply.apply(resource.schema, live, wanted, manager, force=request.flag("force"))
    # An apply that only changes owners keeps the stored bytes.
    same = applied.object == live
    merged = Decoded(old.object) if same else shape(request, resource, to_view(resource, applied.object))
    return _update(server, request, old, merged, applied)


def _not_typed(schema: str, partial: Decoded) -> list[str]:
    problems = [f".{path}: field not declared in schema" for path in partial.unknown]
    twice = repeated(schema, thaw(partial.object))
    return problems + [
        f"{readable(path[:-1])}: duplicate entries for key {readable(path[-1:])}" for path in twice
    ]


def _untyped(request: ApiRequest, config: JsonValue, problems: list[str]) -> StatusError:
    resource, name = request.target.resource, dig(config, "metadata", "name") or ""
    what = f"{dig(config, 'metadata', 'namespace') or ''}/{name}; {resource.api_version}, Kind={resource.kind}"
    listed = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in problems)
    return StatusError(500, "", f"failed to create typed patch object ({what}): {listed}")


def _update(
    server: ServerParts,
    request: ApiRequest,
    old: Stored,
    decoded: Decoded,
    applied: apply.Applied | None = None,
) -> WriteResult:
    obj, before = decoded.object, old.object
    obj["metadata"] = dict(obj["metadata"])
    _check_preconditions(request, obj["metadata"], old)
    _keep_metadata(obj["metadata"], before["metadata"])
    strategy = strategy_of(request.target.resource)
    # Strategies change their argument, and the parts that a patch did not touch are still the stored ones.
    obj = copy(obj)
    warnings = [*decoded.warnings, *_prepare(server, request, strategy, obj, before)]
    admit(server, request, obj, before)
    ownership.record(request, before, obj, applied, server.time())
    if _same(obj, before):
        return WriteResult(200, old, warnings)
    if _finished(obj):
        gone = old if request.dry_run else server.store.delete(old)
        return WriteResult(200, Stored(gone.storage, gone.revision, obj, gone.schema), warnings)
    return WriteResult(200, _store(server, request, obj), warnings)


def _prepare(
    server: ServerParts, request: ApiRequest, strategy: Strategy, obj: Object, before: Object
) -> list[str]:
    resource = request.target.resource
    context = server.context(request.user, request.target.verb)
    causes = metadata_rules.update(obj["metadata"], before["metadata"])
    if resource.schema is not None:
        causes += metadata_rules.finalizers(obj["metadata"])
    if request.target.subresource == "status":
        strategy.prepare_status(context, obj, before)
        admit_pod(request.user, request.target, before, obj)
        causes += strategy.validate_status(context, obj, before)
    elif request.target.subresource == "finalize":
        keep_metadata(obj, before)
        keep(obj, before, "status")
    else:
        strategy.prepare_update(context, obj, before)
        causes += strategy.validate_update(context, obj, before)
        if resource.generation and _spec(obj) != _spec(before):
            obj["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
    if causes:
        raise invalid(resource.about_kind(before["metadata"]["name"]), causes)
    return strategy.warnings(obj)


def _spec(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def _check_preconditions(request: ApiRequest, metadata: Object, old: Stored) -> None:
    about = request.target.resource.about(request.target.name)
    wanted, uid = metadata.get("resourceVersion", ""), metadata.get("uid", "")
    actual = old.object["metadata"]["uid"]
    if uid and uid != actual:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise conflict(about, why)
    if wanted not in {"", "0", str(old.revision)}:
        raise stale(about)
    if metadata.get("namespace", request.target.namespace) != request.target.namespace:
        raise bad_request("the namespace of the object does not match the namespace on the URL")


def _keep_metadata(metadata: Object, before: Object) -> None:
    for name in ("name", "namespace", *_SET_BY_SERVER, "resourceVersion", "generateName"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)


def _same(obj: Object, before: Object) -> bool:
    """Return whether a write changes nothing. Owners of fields count, but their times do not."""

    def comparable(each: Object) -> Object:
        metadata = {key: value for key, value in each["metadata"].items() if value not in ({}, [])}
        entries = metadata.pop("managedFields", [])
        owners = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
        rest = {key: value for key, value in each.items() if value != {}}
        return {**rest, "metadata": {**metadata, "managedFields": owners}}

    return comparable(obj) == comparable(before)


def _finished(obj: Object) -> bool:
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds", 0) > 0
    return bool(metadata.get("deletionTimestamp")) and not waits and not dig(obj, "spec", "finalizers")


def _store(server: ServerParts, request: ApiRequest, obj: Object) -> Stored:
    resource = request.target.resource

    def check(stored: Stored) -> None:
        if len(stored.raw) > _LARGEST_OBJECT:
            raise too_large(f"an object may have {_LARGEST_OBJECT} bytes")

    if not request.dry_run:
        return server.store.put(resource.storage, obj, check)
    candidate = Stored(resource.storage, server.store.revision, obj, resource.schema)
    check(candidate)
    return candidate


def system_update(server: ServerParts, old: Stored, change: Callable[[Object], None]) -> Stored:
    """Let one of the server's own controllers change an object, and delete it if it is finished."""
    obj = copy(old.object)
    change(obj)
    if obj == old.object:
        return old
    return server.store.delete(old) if _finished(obj) else server.store.put(old.storage, obj)
