"""Builds OpenAPI documents, which describe each kind. They also announce that the server validates fields."""

import hashlib

from dradriver.cluster.apiserver.formats.values import JsonValue, Object, encode
from dradriver.cluster.apiserver.kinds.resources import Registry, ServedResource
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, get_fields

# An empty but valid openapi.v2.Document in protobuf: swagger "2.0", info {title, version}.
V2_PROTOBUF = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.37.0"
V2: Object = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": "v1.37.0"},
    "paths": {},
    "definitions": {},
}
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_PRIMITIVES: dict[str, Object] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float": {"type": "number"},
    "byte": {"type": "integer"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "intorstring": {"x-kubernetes-int-or-string": True},
    "raw": {"type": "object"},
    "any": {"type": "object"},
}


def build_v3_index(registry: Registry) -> Object:
    """Return the document of /openapi/v3.

    It lists the address of each group version's document. Each address contains a hash of its document.
    """
    paths: Object = {}
    for path in sorted({_document_path(each) for each in registry.all()}):
        digest = hashlib.sha256(encode(build_v3(registry, path))).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def _document_path(resource: ServedResource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def build_v3(registry: Registry, path: str) -> Object | None:
    """Return the document of a group version; None if the group version is not served."""
    served = [each for each in registry.all() if _document_path(each) == path]
    if not served:
        return None
    schemas: Object = {}
    paths: Object = {}
    for each in served:
        name = f"{each.group or 'core'}.{each.version}.{each.kind}"
        gvk = {"group": each.group, "version": each.version, "kind": each.kind}
        shape = _build_struct(each.schema, schemas) if each.schema is not None else _build_custom(each)
        schemas[name] = {**shape, "x-kubernetes-group-version-kind": [gvk]}
        paths |= _build_paths(each, path, name, gvk)
    info = {"title": "Kubernetes", "version": "v1.37.0"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _build_custom(resource: ServedResource) -> Object:
    return dict(resource.structure.schema) if resource.structure is not None else {"type": "object"}


def _build_paths(resource: ServedResource, path: str, name: str, gvk: Object) -> Object:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    base = f"/{path}{scope}/{resource.plural}"
    parameters = [{"name": each, "in": "query", "schema": {"type": "string"}} for each in _PARAMETERS]
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": _build_reference(name)}}}}

    def operation(action: str) -> Object:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
            "parameters": parameters,
            "responses": answer,
        }

    one = {
        "get": operation("get"),
        "put": operation("put"),
        "patch": operation("patch"),
        "delete": operation("delete"),
    }
    return {base: {"get": operation("list"), "post": operation("post")}, base + "/{name}": one}


def _build_reference(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def _build_struct(name: str, schemas: Object) -> Object:
    properties = {key: _build_field(each, schemas) for key, each in get_fields(name).items()}
    return {"type": "object", "properties": properties}


def _build_field(each: Field, schemas: Object) -> Object:
    shape: Object = dict(_build_type(each.type, schemas))
    if each.list_type and each.type.kind == "list":
        shape["x-kubernetes-list-type"] = each.list_type
    if each.keys:
        shape["x-kubernetes-list-map-keys"] = list(each.keys)
    if each.merge_key is not None:
        shape["x-kubernetes-patch-strategy"] = "merge"
        if each.merge_key:
            shape["x-kubernetes-patch-merge-key"] = each.merge_key
    return {"allOf": [shape]} if "$ref" in shape and len(shape) > 1 else shape


def _build_type(kind: SchemaType, schemas: Object) -> JsonValue:
    if kind.kind == "struct":
        name = f"types.{kind.struct}"
        if name not in schemas:
            schemas[name] = {}
            schemas[name] = _build_struct(kind.struct, schemas)
        return _build_reference(name)
    if kind.kind == "list" and kind.element is not None:
        return {"type": "array", "items": _build_type(kind.element, schemas)}
    if kind.kind == "map" and kind.element is not None:
        return {"type": "object", "additionalProperties": _build_type(kind.element, schemas)}
    return _PRIMITIVES[kind.kind]
