"""Translates a schema to the types with which server-side apply merges objects."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.types import Field, Kind, SchemaType, get_members
from dradriver.cluster.apiserver.structural.pruning import find_unknown, get_member

_METADATA = Field(SchemaType("struct", struct="meta.ObjectMeta"), omitempty=True)
_SCALARS: dict[str, Kind] = {"boolean": "bool", "integer": "int64", "number": "float"}
_ANY = SchemaType("struct", members={})
"""Objects without a schema: maps are merged, and lists are replaced."""


@dataclass(frozen=True)
class Structure:
    """The structural schema of one version of a custom kind.

    Attributes:
        schema: the schema as JSON.
        type: the type of the kind's objects for server-side apply.
    """

    schema: Object
    type: SchemaType


def make_structure(schema: Object) -> Structure:
    """Return the structure of a kind.

    Args:
        schema: the JSON of `openAPIV3Schema`.
    """
    members = dict(get_members(_make_type(schema)))
    return Structure(schema, SchemaType("struct", members={**members, "metadata": _METADATA}))


def _make_field(schema: Object) -> Field:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    list_type = "atomic" if atomic else schema.get("x-kubernetes-list-type", "")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return Field(_make_type(schema), omitempty=True, list_type=list_type, keys=keys)


def _make_type(schema: Object) -> SchemaType:
    if schema.get("x-kubernetes-int-or-string"):
        return SchemaType("intorstring")
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return SchemaType("list", element=_make_type(items) if isinstance(items, dict) else _ANY)
    if kind == "object" or kind is None:
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            return SchemaType("map", element=_make_type(additional))
        properties = schema.get("properties") or {}
        return SchemaType("struct", members={key: _make_field(each) for key, each in properties.items()})
    return SchemaType(_SCALARS.get(kind, "string"))


def find_apply_problems(schema: Object, config: Object) -> list[str]:
    """Return why an applied configuration does not have the form of its schema, in the words of the server.

    Args:
        schema: the structural schema of the kind.
        config: the configuration.
    """
    rest = {key: value for key, value in config.items() if key not in {"apiVersion", "kind", "metadata"}}
    unknown = (f".{path}: field not declared in schema" for path in find_unknown(schema, config))
    return [*unknown, *_find_problems(schema, rest, "")]


def _find_problems(schema: Object, value: JsonValue, path: str) -> Iterator[str]:
    kind = schema.get("type")
    if value is None or schema.get("x-kubernetes-int-or-string"):
        return
    if kind in _WORDS and not _has_type(value, kind):
        yield f"{path}: expected {_WORDS[kind]}, got {_show(value)}"
    elif isinstance(value, dict):
        for key, item in value.items():
            known = get_member(schema, key)
            if known is not None:
                yield from _find_problems(known, item, f"{path}.{key}")
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        yield from _find_key_problems(schema, value, path)
        for index, item in enumerate(value):
            yield from _find_problems(items, item, f"{path}[{index}]")


_WORDS = {
    "object": "map", "array": "list", "string": "string", "boolean": "boolean",
    "integer": "numeric (int or float)", "number": "numeric (int or float)",
}  # fmt: skip


def _has_type(value: JsonValue, kind: str) -> bool:
    if kind in {"integer", "number"}:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, {"object": dict, "array": list, "string": str, "boolean": bool}[kind])


def _show(value: JsonValue) -> str:
    kinds = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return kinds.get(type(value), "map" if isinstance(value, dict) else "list")


def _find_key_problems(schema: Object, items: list[JsonValue], path: str) -> Iterator[str]:
    """Yield the duplicates of a set or keyed list, and the items of a keyed list without a key."""
    kind, seen = schema.get("x-kubernetes-list-type"), set()
    for index, item in enumerate(items):
        if kind == "set":
            key = "=" + json.dumps(item)
        elif kind == "map" and isinstance(item, dict):
            names = schema["x-kubernetes-list-map-keys"]
            key = ",".join(f"{name}={json.dumps(item[name])}" for name in names if name in item)
            if not key:
                listed = " ".join(json.dumps(name) for name in names)
                yield (
                    f"{path}: element {index}: associative list with keys has an element that omits all key "
                    f"fields [{listed}] (and doesn't have default values for any key fields)"
                )
                continue
        else:
            continue
        if key in seen:
            yield f"{path}: duplicate entries for key [{key}]"
        seen.add(key)
