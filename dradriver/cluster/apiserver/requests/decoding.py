"""Converts a request's body to an object, and checks media type, kind, types and unknown fields."""

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
from dradriver.cluster.apiserver.structural import find_unknown, prune
from dradriver.cluster.apiserver.validation.field import invalid as field_error

_JSON = frozenset({"application/json", "*/*", "", "application/octet-stream"})
_YAML = frozenset({"application/yaml", "application/vnd.kubernetes.yaml"})
_APPLY = "application/apply-patch+yaml"
MAX_BODY_BYTES = 3 * 1024 * 1024
"""The maximum size of a request's body in bytes."""
_THREAD_BYTES = 16 * 1024


@dataclass
class DecodedObject:
    """An object in its stored form, with warnings and its unknown fields."""

    object: Object
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def parse_media_type(content_type: str) -> str:
    """Return the media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def parse_body(body: bytes, schema: str | None) -> JsonValue:
    """Parse a body.

    Raises:
        StatusError: 400 if the body is not JSON, or is nested too deeply.
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
    return parse_media_type(content_type) in {*_YAML, _APPLY}


async def convert_to_json(body: bytes) -> bytes:
    """Return the JSON of a body that may be YAML.

    A large body is read in a thread, so that other requests are answered at the same time.

    Raises:
        StatusError: 400 if the body is neither JSON nor YAML; 413 if it is too large as JSON.
    """
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        msgspec.json.decode(body)
        return body
    if len(body) <= _THREAD_BYTES:
        return _convert_to_json(body)
    return await asyncio.to_thread(_convert_to_json, body)


def _convert_to_json(body: bytes) -> bytes:
    try:
        return yamljson.to_json(body, MAX_BODY_BYTES)
    except yamljson.TooLargeError as error:
        raise too_large() from error
    except yamljson.YamlError as error:
        raise bad_request(f"error converting YAML to JSON: yaml: {error}") from error


def decode(request: ApiRequest) -> DecodedObject:
    """Return the object in the body of a create or replace.

    Raises:
        StatusError: 415 if the media type is not supported; 400 if the body is malformed, or breaks a rule of
            `conform_object`.
    """
    resource = request.target.resource
    return conform_object(request, resource, read(request, resource.schema))


def read_options(body: bytes, content_type: str, schema: str) -> Object:
    """Return the checked content of a body that is not stored: a review, a binding or options.

    Raises:
        StatusError: 415 if the media type is not supported; 400 if the body is malformed, or a value has a
            wrong type.
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
        StatusError: 415 if the media type is not supported; 400 if the body is malformed.
    """
    return read_body(request.body, request.content_type, schema)


def read_body(body: bytes, content_type: str, schema: str | None) -> JsonValue:
    """Return a body in any of the media types that the server reads, as a JSON tree.

    Args:
        body: the bytes. Only delete options may be empty, which means an empty object.
        content_type: media type of the bytes.
        schema: name of the body's struct; None for an object without a schema.

    Raises:
        StatusError: 415 if the media type is not supported; 400 if the body is malformed.
    """
    kind = parse_media_type(content_type)
    if kind == protobuf.MEDIA_TYPE and schema is not None and protobuf.can_read(schema):
        return _read_protobuf(body, schema)
    if kind not in _JSON and kind not in _YAML:
        raise unsupported_media_type("application/json, application/yaml, application/vnd.kubernetes.protobuf")
    if not body and schema != "meta.DeleteOptions":
        raise bad_request(
            f"the object provided is unrecognized (must be of type {(schema or '').rpartition('.')[2]}): "
            "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"
        )
    return parse_body(body or b"{}", schema)


def _read_protobuf(body: bytes, schema: str) -> Object:
    try:
        version, kind, message = protobuf.unwrap(body)
        return {**protobuf.decode(schema, message), "apiVersion": version, "kind": kind}
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"couldn't get version/kind; {error}") from error


def conform_object(
    request: ApiRequest,
    resource: ServedResource,
    value: JsonValue,
    *,
    complete: bool = True,
    patched: Object | None = None,
) -> DecodedObject:
    """Check kind and types of a decoded value and convert it to its stored form.

    Args:
        request: the request, whose `fieldValidation` decides how unknown fields are treated.
        resource: the resource whose kind the value must have.
        value: the decoded body, or the object after a patch.
        complete: whether the value is a complete object. If so, unset fields are filled with the zero values
            that Go would serialize, and `Strict` field validation rejects unknown fields. An apply sends only a
            part of an object.
        patched: the object before the patch, in the form in which the resource serves it; None if the value is
            not the result of a patch. Parts that the patch did not change are not converted again.

    Raises:
        StatusError: the value is not an object, or has another kind or API version (400); a field has a wrong
            type, or is unknown and therefore rejected (400, or 422 after a patch). A wrong type in the metadata
            of a custom resource is always a 400.
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
            value, unknown = conform(resource.schema, value, complete=complete, known=patched)
        except TypeMismatchError as error:
            raise _type_error(resource, str(error), None if patched is None else sent) from error
    else:
        value = _conform_metadata(resource, value, unknown)
        value = _conform_custom(resource, value, unknown, complete=complete)
    value["apiVersion"], value["kind"] = resource.api_version, resource.kind
    value.setdefault("metadata", {})
    paths = [each.removeprefix('unknown field "').removesuffix('"') for each in unknown]
    if unknown and complete and request.field_validation == "Strict":
        reason = "strict decoding error: " + ", ".join(unknown)
        raise _type_error(resource, reason, None if patched is None else sent)
    return DecodedObject(
        to_stored(resource, value), unknown if request.field_validation == "Warn" else [], paths
    )


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


def _conform_custom(resource: ServedResource, value: Object, unknown: list[str], *, complete: bool) -> Object:
    if resource.structure is None:
        return value
    schema = resource.structure.schema
    pruned, paths = prune(schema, value) if complete else (value, find_unknown(schema, value))
    unknown.extend(f'unknown field "{path}"' for path in paths)
    return pruned


def _type_error(resource: ServedResource, reason: str, patched: Object | None) -> StatusError:
    if patched is None:
        return _cannot_be_handled(resource, reason)
    cause = field_error("patch", gojson.encode(thaw(patched)), reason)
    return StatusError(422, "Invalid", f' "" is invalid: {cause.field}: {cause.message}', None, [cause])


def _cannot_be_handled(resource: ServedResource, reason: str) -> StatusError:
    message = (
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {reason}'
    )
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
    # For typed kinds, clients may omit the kind, because the path defines it.
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f'no kind "{kind}" is registered for version "{resource.api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )


def to_stored(resource: ServedResource, value: Object) -> Object:
    """Return a served object in the stored form: renamed fields get their stored names."""
    if not resource.renames:
        return value
    stored_names = {served: stored for stored, served in resource.renames.items()}
    renamed = {stored_names.get(key, key): item for key, item in value.items()}
    return {**renamed, "apiVersion": "v1"}


def to_served(resource: ServedResource, value: Object) -> Object:
    """Return a stored object in the form in which the resource serves it."""
    if not resource.renames and (not resource.stored_as or value.get("apiVersion") == resource.api_version):
        return value
    renamed = {resource.renames.get(key, key): item for key, item in value.items()}
    return {**renamed, "apiVersion": resource.api_version}
