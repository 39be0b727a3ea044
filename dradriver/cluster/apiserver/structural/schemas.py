"""Checks that a schema is structural, with the messages of kube-apiserver.

Only the rules are checked without which this server could not use a schema.
"""

from collections.abc import Iterator
from typing import Final

import re2

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.status import Cause
from dradriver.cluster.apiserver.structural.validating import compile_pattern
from dradriver.cluster.apiserver.validation.field import Causes, forbidden, invalid, not_supported, required

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES: Final = ("atomic", "set", "map")
_KEYS: Final = "x-kubernetes-list-map-keys"
_KEYWORDS: Final[dict[str, type | tuple[type, ...]]] = {
    "type": str, "properties": dict, "additionalProperties": (dict, bool), "required": list, "enum": list,
    "pattern": str, "maxLength": int, "minLength": int, "maxItems": int, "minItems": int, "maxProperties": int,
    "minProperties": int, "maximum": (int, float), "minimum": (int, float), "x-kubernetes-list-type": str,
    "x-kubernetes-map-type": str, _KEYS: list, "x-kubernetes-validations": list,
}  # fmt: skip


def check_schema(schema: JsonValue, path: str) -> Causes:
    """Check the schema of a custom kind.

    Args:
        schema: the value of `openAPIV3Schema`.
        path: the path of the schema in the definition.

    Returns:
        The errors; empty if the schema is structural.
    """
    if isinstance(schema, dict) and not schema.get("type"):
        return [required(f"{path}.type", "must not be empty at the root")]
    causes = list(_check(schema, path))
    if isinstance(schema, dict) and schema["type"] != "object" and schema["type"] in _TYPES:
        causes.append(invalid(f"{path}.type", schema["type"], "must be object at the root"))
    return causes


def _check(schema: JsonValue, path: str) -> Iterator[Cause]:
    if not isinstance(schema, dict):
        yield invalid(path, schema, "must be an object")
        return
    wrong = [key for key, types in _KEYWORDS.items() if key in schema and not isinstance(schema[key], types)]
    if wrong:
        yield from (invalid(f"{path}.{key}", schema[key], "has a wrong type") for key in wrong)
        return
    yield from _check_values(schema, path)
    if schema.get("type") == "array":
        yield from _check_list(schema, path)
    for key, each in (schema.get("properties") or {}).items():
        yield from _check(each, f"{path}.properties[{key}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _check(schema[key], f"{path}.{key}")


def _check_values(schema: Object, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind is None:
        if not (schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")):
            yield required(f"{path}.type", "must not be empty for specified object fields")
    elif kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", detail)
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except re2.error as error:
            reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
            detail = f"must be a valid regular expression, but isn't: error parsing regexp: {reason}"
            yield invalid(f"{path}.pattern", pattern, detail)


def _check_list(schema: Object, path: str) -> Iterator[Cause]:
    items, list_type = schema.get("items"), schema.get("x-kubernetes-list-type", "atomic")
    if not isinstance(items, dict):
        yield required(f"{path}.items", "must be specified")
        return
    if list_type not in _LIST_TYPES:
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, _LIST_TYPES)
    if list_type == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield invalid(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), detail)
    if list_type != "map":
        return
    if not schema.get(_KEYS):
        yield required(f"{path}.{_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    for key in schema.get(_KEYS) or ():
        known = (items.get("properties") or {}).get(key)
        if known is None:
            detail = "entries must all be names of item properties"
            yield invalid(f"{path}.{_KEYS}", schema[_KEYS], detail)
        elif key not in (items.get("required") or ()) and "default" not in known:
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", detail)
