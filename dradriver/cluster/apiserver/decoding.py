"""From a request's body to an object: media type, kind, types, unknown fields."""

import re
from dataclasses import dataclass, field

import msgspec
import yaml

from dradriver.cluster.apiserver import gojson
from dradriver.cluster.apiserver.requests import Request
from dradriver.cluster.apiserver.resources import Resource
from dradriver.cluster.apiserver.schema import protobuf
from dradriver.cluster.apiserver.schema.decode import TypeMismatchError, conform, parse, thaw
from dradriver.cluster.apiserver.status import StatusError, bad_request, unsupported_media_type
from dradriver.cluster.apiserver.validation.field import invalid as field_error
from dradriver.cluster.apiserver.values import JsonValue, Object

_JSON = frozenset({"application/json", "*/*", "", "application/octet-stream"})
_YAML = frozenset({"application/yaml", "application/vnd.kubernetes.yaml"})


@dataclass
class Decoded:
    """An object as its kind has it, in its stored form; what to warn of, and the fields that are unknown."""

    object: Object
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def media_type(content_type: str) -> str:
    """The media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def load(body: bytes, schema: str | None, *, allow_yaml: bool = False) -> JsonValue:
    """Parse a body.

    Raises:
        StatusError: 400 for what is neither JSON nor, where allowed, YAML.
    """
    try:
        return parse(body, schema)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if allow_yaml:
            return _load_yaml(body, schema)
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _load_yaml(body: bytes, schema: str | None) -> JsonValue:
    try:
        # BaseLoader would lose types, SafeLoader makes dates of strings: JSON's types are what is wanted.
        value = yaml.load(body, _JsonLoader)  # noqa: S506 -- a SafeLoader without dates
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    return parse(gojson.encode(value).encode(), schema)


class _JsonLoader(yaml.SafeLoader):
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


# YAML 1.1 has one-letter booleans, and Go's reader knows them.
_JsonLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
_JsonLoader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


def decode(request: Request) -> Decoded:
    """The object in a create or replace.

    Raises:
        StatusError: 400 or 415.
    """
    resource = request.target.resource
    return shape(request, resource, read(request, resource.schema))


def read(request: Request, schema: str | None) -> JsonValue:
    """The body of a request as a JSON tree; see `read_body`.

    Raises:
        StatusError: 400 or 415.
    """
    return read_body(request.body, request.content_type, schema)


def read_body(body: bytes, content_type: str, schema: str | None) -> JsonValue:
    """A body in any of the media types that the server reads, as a JSON tree.

    Args:
        body: the bytes; none read as an empty object.
        content_type: their media type.
        schema: the struct that the body is, None for an object without a schema.

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
    return load(body or b"{}", schema, allow_yaml=kind in _YAML)


def _read_protobuf(body: bytes, schema: str) -> Object:
    try:
        version, kind, message = protobuf.envelope(body)
        return {**protobuf.decode(schema, message), "apiVersion": version, "kind": kind}
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"couldn't get version/kind; {error}") from error


def shape(
    request: Request, resource: Resource, value: JsonValue, *, complete: bool = True, patched: bool = False
) -> Decoded:
    """Check kind and types of a decoded value and bring it into its stored form.

    Args:
        request: the request, for its options.
        resource: the kind that it must be.
        value: the decoded body.
        complete: whether fields that nobody set get the values that Go writes for them.
        patched: whether the value is the result of a patch.

    Raises:
        StatusError: 400; 422 for what a patch made.
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


def _conform_metadata(resource: Resource, value: Object, unknown: list[str]) -> Object:
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


def _unfit(resource: Resource, why: str, patched: Object | None) -> StatusError:
    if patched is None:
        return _cannot_be_handled(resource, why)
    cause = field_error("patch", gojson.encode(thaw(patched)), why)
    return StatusError(422, "Invalid", f' "" is invalid: {cause.field}: {cause.message}', None, [cause])


def _cannot_be_handled(resource: Resource, why: str) -> StatusError:
    message = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
    return bad_request(message)


def _check_kind(resource: Resource, value: Object) -> None:
    version, kind = value.get("apiVersion", ""), value.get("kind", "")
    if not kind and resource.schema is None:
        raise bad_request("Object 'Kind' is missing in the request body")
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    # Clients of typed kinds may leave it out; the path says what is meant.
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f'no kind "{kind}" is registered for version "{resource.api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )


def from_view(resource: Resource, value: Object) -> Object:
    """A served object in the form that is stored: renamed fields get their stored names."""
    if not resource.renames:
        return value
    stored_names = {served: stored for stored, served in resource.renames.items()}
    renamed = {stored_names.get(key, key): item for key, item in value.items()}
    return {**renamed, "apiVersion": "v1"}


def to_view(resource: Resource, value: Object) -> Object:
    """A stored object as the resource serves it."""
    if not resource.renames and (not resource.stored_as or value.get("apiVersion") == resource.api_version):
        return value
    renamed = {resource.renames.get(key, key): item for key, item in value.items()}
    return {**renamed, "apiVersion": resource.api_version}
