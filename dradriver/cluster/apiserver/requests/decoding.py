"""From a request's body to an object: media type, kind, types, unknown fields."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import msgspec

from dradriver.cluster.apiserver.formats import gojson, yamljson
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, is_too_deep
from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.schema import protobuf
from dradriver.cluster.apiserver.schema.decode import TypeMismatchError, conform, parse, thaw
from dradriver.cluster.apiserver.status import StatusError, bad_request, too_large, unsupported_media_type
from dradriver.cluster.apiserver.validation.field import invalid as field_error

_JSON = frozenset({"application/json", "*/*", "", "application/octet-stream"})
_YAML = frozenset({"application/yaml", "application/vnd.kubernetes.yaml"})
_APPLY = "application/apply-patch+yaml"
LARGEST_BODY = 3 * 1024 * 1024
"""The maximum size of a request's body in bytes."""
_QUICK = 16 * 1024


@dataclass
class Decoded:
    """An object in its stored form, with warnings and the unknown fields."""

    object: Object
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def media_type(content_type: str) -> str:
    """Return the media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def load(body: bytes, schema: str | None) -> JsonValue:
    """Parse a body.

    Raises:
        StatusError: 400 for a body that is not JSON, or is nested too deep.
    """
    try:
        value = parse(body, schema)
        if is_too_deep(value):
            raise bad_request(_TOO_DEEP)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    except RecursionError as error:
        raise bad_request(_TOO_DEEP) from error
    return value


_TOO_DEEP = "couldn't get version/kind; json parse error: exceeded max depth"


def is_yaml(content_type: str) -> bool:
    """Return whether a body of this media type may be YAML."""
    return media_type(content_type) in {*_YAML, _APPLY}


async def as_json(body: bytes) -> bytes:
    """Return a body that may be YAML as JSON.

    A large body is read in a thread, so that other requests are answered meanwhile.

    Raises:
        StatusError: 400 for a body that is neither, 413 for one that is too large as JSON.
    """
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        msgspec.json.decode(body)
        return body
    if len(body) <= _QUICK:
        return _as_json(body)
    return await asyncio.to_thread(_as_json, body)


def _as_json(body: bytes) -> bytes:
    try:
        return yamljson.to_json(body, LARGEST_BODY)
    except yamljson.TooLargeError as error:
        raise too_large() from error
    except yamljson.YamlError as error:
        raise bad_request(f"error converting YAML to JSON: yaml: {error}") from error


def decode(request: ApiRequest) -> Decoded:
    """Return the object in the body of a create or replace.

    Raises:
        StatusError: 400 or 415.
    """
    resource = request.target.resource
    return shape(request, resource, read(request, resource.schema))


def read_options(body: bytes, content_type: str, schema: str) -> Object:
    """Return a body that is not stored (a review, a binding, options) with the types of its struct.

    Raises:
        StatusError: 400 or 415.
    """
    value = read_body(body, content_type, schema)
    kind = schema.rpartition(".")[2]
    if not isinstance(value, dict):
        raise bad_request("couldn't get version/kind; json parse error: not an object")
    try:
        return conform(schema, value)[0]
    except TypeMismatchError as error:
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error


def read(request: ApiRequest, schema: str | None) -> JsonValue:
    """Return the body of a request as a JSON tree; see `read_body`.

    Raises:
        StatusError: 400 or 415.
    """
    return read_body(request.body, request.content_type, schema)


def read_body(body: bytes, content_type: str, schema: str | None) -> JsonValue:
    """Return a body in any of the media types that the server reads, as a JSON tree.

    Args:
        body: the bytes; an empty body is an empty object.
        content_type: their media type.
        schema: the struct of the body, None for an object without a schema.

    Raises:
        StatusError: 400 or 415.
    """
    kind = media_type(content_type)
    if kind == protobuf.MEDIA_TYPE and schema is not None and protobuf.can_read(schema):
        return _read_protobuf(body, schema)
    if kind not in _JSON and kind not in _YAML:
        raise unsupported_media_type("application/json, application/yaml, application/vnd.kubernetes.protobuf")
    if not body and schema != "meta.DeleteOptions":
        raise bad_request(
            f"the object provided is unrecognized (must be of type {(schema or '').rpartition('.')[2]}): "
            "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"
        )
    return load(body or b"{}", schema)


def _read_protobuf(body: bytes, schema: str) -> Object:
    try:
        version, kind, message = protobuf.envelope(body)
        return {**protobuf.decode(schema, message), "apiVersion": version, "kind": kind}
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"couldn't get version/kind; {error}") from error


def shape(
    request: ApiRequest,
    resource: ServedResource,
    value: JsonValue,
    *,
    complete: bool = True,
    patched: bool = False,
) -> Decoded:
    """Check kind and types of a decoded value and convert it to its stored form.

    Args:
        request: the request, for its options.
        resource: the kind that it must have.
        value: the decoded body.
        complete: whether unset fields get the values that Go writes for them.
        patched: whether the value is the result of a patch.

    Raises:
        StatusError: 400; 422 for the result of a patch.
    """
    if not isinstance(value, dict):
        raise bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value"
        )
    _check_kind(resource, value)
    sent = value
    unknown: list[str] = []
    if resource.schema is not None:
        try:
            value, unknown = conform(resource.schema, value, complete=complete)
        except TypeMismatchError as error:
            raise _unfit(resource, str(error), sent if patched else None) from error
    else:
        value = _conform_metadata(resource, value, unknown)
    value["apiVersion"], value["kind"] = resource.api_version, resource.kind
    value.setdefault("metadata", {})
    paths = [each.removeprefix('unknown field "').removesuffix('"') for each in unknown]
    if unknown and complete and request.field_validation == "Strict":
        raise _unfit(resource, "strict decoding error: " + ", ".join(unknown), sent if patched else None)
    return Decoded(from_view(resource, value), unknown if request.field_validation == "Warn" else [], paths)


def _conform_metadata(resource: ServedResource, value: Object, unknown: list[str]) -> Object:
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _cannot_be_handled(
            resource, "json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta"
        )
    try:
        metadata, found = conform("meta.ObjectMeta", metadata)
    except TypeMismatchError as error:
        raise _cannot_be_handled(resource, str(error)) from error
    unknown.extend(each.replace('"', '"metadata.', 1) for each in found)
    return {**value, "metadata": metadata}


def _unfit(resource: ServedResource, why: str, patched: Object | None) -> StatusError:
    if patched is None:
        return _cannot_be_handled(resource, why)
    cause = field_error("patch", gojson.encode(thaw(patched)), why)
    return StatusError(422, "Invalid", f' "" is invalid: {cause.field}: {cause.message}', None, [cause])


def _cannot_be_handled(resource: ServedResource, why: str) -> StatusError:
    message = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
    return bad_request(message)


def _check_kind(resource: ServedResource, value: Object) -> None:
    version, kind = value.get("apiVersion", ""), value.get("kind", "")
    if not kind and resource.schema is None:
        raise bad_request("Object 'Kind' is missing in the request body")
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    # Clients of typed kinds may omit the kind, because the path defines it.
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f'no kind "{kind}" is registered for version "{resource.api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )


def from_view(resource: ServedResource, value: Object) -> Object:
    """Return a served object in the stored form: renamed fields get their stored names."""
    if not resource.renames:
        return value
    stored_names = {served: stored for stored, served in resource.renames.items()}
    renamed = {stored_names.get(key, key): item for key, item in value.items()}
    return {**renamed, "apiVersion": "v1"}


def to_view(resource: ServedResource, value: Object) -> Object:
    """Return a stored object as the resource serves it."""
    if not resource.renames and (not resource.stored_as or value.get("apiVersion") == resource.api_version):
        return value
    renamed = {resource.renames.get(key, key): item for key, item in value.items()}
    return {**renamed, "apiVersion": resource.api_version}
