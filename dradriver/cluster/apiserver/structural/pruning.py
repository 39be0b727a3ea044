"""Removes unknown fields and nulls from an object, and sets defaults."""

from collections.abc import Iterator, Mapping

from dradriver.cluster.apiserver.formats.values import JsonValue, Object, copy

_HEAD = ("apiVersion", "kind", "metadata")
"""The fields that every object has. Their content has rules of its own."""


def prune(schema: Object, obj: Object) -> tuple[Object, list[str]]:
    """Return an object without unknown fields and with its defaults, and the paths of the unknown fields.

    A value of a wrong type stays, so that validation reports it.

    Args:
        schema: the structural schema of the kind.
        obj: the object. It is not changed.
    """
    unknown = find_unknown(schema, obj)
    head = {key: obj[key] for key in _HEAD if key in obj}
    rest = {key: value for key, value in obj.items() if key not in head}
    known = {key: each for key, each in _get_properties(schema).items() if key not in _HEAD}
    return {**head, **_prune_object({**schema, "properties": known}, rest)}, unknown


def find_unknown(schema: Object, obj: Object) -> list[str]:
    """Return the paths of the fields of an object that its schema does not have, sorted.

    Args:
        schema: the structural schema of the kind.
        obj: the object.
    """
    rest = {key: value for key, value in obj.items() if key not in _HEAD}
    return sorted(path.removeprefix(".") for path in _find_unknown(schema, rest, ""))


def _find_unknown(schema: Object, value: JsonValue, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            known = get_member(schema, key)
            if known is not None:
                yield from _find_unknown(known, item, f"{path}.{key}")
            elif not keeps_unknown(schema, key):
                yield f"{path}.{key}"
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _find_unknown(schema["items"], item, f"{path}[{index}]")


def get_member(schema: Object, key: str) -> Object | None:
    """Return the schema of a field of an object; None if the schema does not have it.

    Args:
        schema: the schema of the object.
        key: the field's name.
    """
    found = _get_properties(schema).get(key)
    if found is None:
        additional = schema.get("additionalProperties")
        found = {_PRESERVE: True} if additional is True else additional
    return found if isinstance(found, dict) else None


def keeps_unknown(schema: Object, key: str) -> bool:
    """Return whether a field that a schema does not have stays in the object.

    Args:
        schema: the schema of the object.
        key: the field's name.
    """
    return bool(schema.get(_PRESERVE)) or (bool(schema.get("x-kubernetes-embedded-resource")) and key in _HEAD)


_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def _get_properties(schema: Object) -> Mapping[str, Object]:
    return schema.get("properties") or {}


def _prune(schema: Object, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return _prune_object(schema, value)
    if isinstance(value, list) and "items" in schema:
        return [_prune(schema["items"], item) for item in value]
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _prune_object(schema: Object, value: Object) -> Object:
    result: Object = {}
    for key, item in value.items():
        known = get_member(schema, key)
        if known is not None:
            if item is not None or known.get("nullable") or _accepts_anything(known):
                result[key] = _prune(known, item)
        elif keeps_unknown(schema, key):
            result[key] = item
    for key, known in _get_properties(schema).items():
        if key not in result and "default" in known:
            result[key] = _prune(known, copy(known["default"]))
    return result


def _accepts_anything(schema: Object) -> bool:
    return "type" not in schema and bool(schema.get(_PRESERVE))
