"""Checks an object against its schema, with the messages of kube-apiserver.

As on kube-apiserver, a part of an object that a write does not change is not checked again, so a definition can
get stricter rules while objects exist ("ratcheting", KEP-4008).
"""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import re2

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.status import Cause
from dradriver.cluster.apiserver.structural.pruning import get_member
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)

_MISSING: Final = object()
_IMMUTABLE: Final = "self == oldSelf"
_BLOCKING: Final = frozenset({
    "FieldValueRequired", "FieldValueTypeInvalid", "FieldValueNotSupported", "FieldValueTooLong",
    "FieldValueTooMany",
})  # fmt: skip
"""With an error of these reasons, kube-apiserver does not evaluate the CEL rules of an object."""

_SKIPPED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def find_violations(schema: Object, obj: Object, old: Object | None, *, only: str = "") -> Causes:
    """Return a cause for each rule of the schema that an object breaks.

    Args:
        schema: the structural schema of the kind.
        obj: the object.
        old: the stored object; None for a new object.
        only: the only top-level field to check, such as `status`. Empty: all fields.
    """
    before: JsonValue = _MISSING if old is None else old
    value: JsonValue = obj
    has_rules = _has_rules(schema)
    if only:
        schema = get_member(schema, only) or {}
        value, before = obj.get(only, _MISSING), _get(before, only)
    if value is _MISSING:
        return []
    checker = _Checker(len(only) + 1 if only else 0)
    causes = [*checker.check(schema, value, before, only), *_find_duplicates(schema, value, before, only)]
    if any(cause.reason in _BLOCKING for cause in causes):
        skipped = Cause("FieldValueInvalid", f"Invalid value: null: {_SKIPPED}", "<nil>")
        return [*causes, skipped] if has_rules else causes
    return [*causes, *_find_changes(schema, value, before, only)]


class _Checker:
    """Checks values.

    Attributes:
        skipped: the number of characters at the beginning of a path that messages leave out.
    """

    def __init__(self, skipped: int) -> None:
        self.skipped = skipped

    def check(self, schema: Object, value: JsonValue, old: JsonValue, path: str) -> Iterator[Cause]:
        """Yield the violations of a value and of the values in it."""
        if old is not _MISSING and value == old and type(value) is type(old):
            return
        if value is None and schema.get("nullable"):
            return
        wanted = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
        found = _find_type(value)
        if wanted is not None and found not in _ACCEPTED[wanted]:
            detail = f'{self.name(path)} in body must be of type {wanted}: "{found}"'
            yield Cause("FieldValueTypeInvalid", f'Invalid value: "{found}": {detail}', path)
            return
        if "enum" in schema and value not in schema["enum"]:
            shown = (each if isinstance(each, str) else json.dumps(each) for each in schema["enum"])
            yield not_supported(path, value, shown)
        if isinstance(value, dict):
            yield from self._check_object(schema, value, old, path)
        elif isinstance(value, list):
            yield from self._check_list(schema, value, old, path)
        elif isinstance(value, str):
            yield from self._check_text(schema, value, path)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from self._check_number(schema, value, path)

    def name(self, path: str) -> str:
        """Return the path of a value as messages contain it."""
        return path[self.skipped :]

    def _check_object(self, schema: Object, value: Object, old: JsonValue, path: str) -> Iterator[Cause]:
        for key in schema.get("required") or ():
            if key not in value:
                yield required(_join(path, key))
        count = len(value)
        if count > schema.get("maxProperties", count):
            yield too_many(path, count, schema["maxProperties"])
        if count < schema.get("minProperties", 0):
            detail = f"should have at least {schema['minProperties']} properties"
            yield invalid(path, count, f"{self.name(path)} in body {detail}")
        for key, item in value.items():
            known = get_member(schema, key)
            if known is not None:
                yield from self.check(known, item, _get(old, key), _join(path, key))

    def _check_list(self, schema: Object, value: list[JsonValue], old: JsonValue, path: str) -> Iterator[Cause]:
        count, items = len(value), schema.get("items")
        if isinstance(items, dict):
            earlier = _index_items(schema, old)
            for index, item in enumerate(value):
                before = earlier.get(_make_key(schema, item), _MISSING)
                yield from self.check(items, item, before, f"{path}[{index}]")
        if count > schema.get("maxItems", count):
            yield too_many(path, count, schema["maxItems"])
        if count < schema.get("minItems", 0):
            detail = f"should have at least {schema['minItems']} items"
            yield invalid(path, count, f"{self.name(path)} in body {detail}")

    def _check_text(self, schema: Object, value: str, path: str) -> Iterator[Cause]:
        count = len(value)
        if count > schema.get("maxLength", count):
            yield too_long(path, schema["maxLength"])
        elif count < schema.get("minLength", 0):
            detail = f"should be at least {schema['minLength']} chars long"
            yield invalid(path, value, f"{self.name(path)} in body {detail}")
        elif (pattern := schema.get("pattern")) and not compile_pattern(pattern).search(value):
            yield invalid(path, value, f"{self.name(path)} in body should match '{pattern}'")

    def _check_number(self, schema: Object, value: float, path: str) -> Iterator[Cause]:
        for keyword, breaks, words in _LIMITS:
            limit = schema.get(keyword)
            if limit is not None and breaks(value, limit):
                yield invalid(path, value, f"{self.name(path)} in body should be {words} {limit}")
            elif limit is not None and value == limit and schema.get(f"exclusive{keyword.capitalize()}"):
                strict = words.removesuffix(" or equal to")
                yield invalid(path, value, f"{self.name(path)} in body should be {strict} {limit}")


_LIMITS: Final[tuple[tuple[str, Callable[[float, float], bool], str], ...]] = (
    ("minimum", lambda value, limit: value < limit, "greater than or equal to"),
    ("maximum", lambda value, limit: value > limit, "less than or equal to"),
)
_ACCEPTED: Final = {
    "string": {"string"},
    "boolean": {"boolean"},
    "integer": {"integer"},
    "number": {"integer", "number"},
    "integer,string": {"integer", "string"},
    "array": {"array"},
    "object": {"object"},
}


def _find_type(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if float(value).is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> "re2._Regexp":
    """Return a compiled regular expression of Go's syntax.

    Raises:
        re2.error: the pattern is not a regular expression.
    """
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _find_duplicates(schema: Object, value: JsonValue, old: JsonValue, path: str) -> Iterator[Cause]:
    """Yield the duplicate items of sets and keyed lists."""
    if old is not _MISSING and value == old:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            known = get_member(schema, key)
            if known is not None:
                yield from _find_duplicates(known, item, _get(old, key), _join(path, key))
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        kind, seen = schema.get("x-kubernetes-list-type"), set()
        for index, item in enumerate(value):
            key = _make_key(schema, item) if kind in {"set", "map"} else ""
            if key and key in seen:
                yield duplicate(f"{path}[{index}]", json.loads(key))
            seen.add(key)
        earlier = _index_items(schema, old)
        for index, item in enumerate(value):
            before = earlier.get(_make_key(schema, item), _MISSING)
            yield from _find_duplicates(items, item, before, f"{path}[{index}]")


def _make_key(schema: Object, item: JsonValue) -> str:
    """Return the JSON of an item's key; empty if the item has none."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return json.dumps(item, sort_keys=True, separators=(",", ":"))
    if kind == "map" and isinstance(item, dict):
        found = {key: item[key] for key in schema["x-kubernetes-list-map-keys"] if key in item}
        return json.dumps(found, sort_keys=True, separators=(",", ":")) if found else ""
    return ""


def _index_items(schema: Object, old: JsonValue) -> dict[str, JsonValue]:
    """Return the earlier items of a keyed list. Items of other lists have no earlier value."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {key: item for item in old if (key := _make_key(schema, item))}


def _find_changes(schema: Object, value: JsonValue, old: JsonValue, path: str) -> Iterator[Cause]:
    """Yield the changed values that have the rule `self == oldSelf`."""
    if old is _MISSING or value == old:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        if " ".join(str(rule.get("rule", "")).split()) == _IMMUTABLE:
            message = rule.get("message") or f"failed rule: {_IMMUTABLE}"
            yield Cause("FieldValueInvalid", f"Invalid value: {message}", path)
    if isinstance(value, dict):
        for key, item in value.items():
            known = get_member(schema, key)
            if known is not None:
                yield from _find_changes(known, item, _get(old, key), _join(path, key))
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        earlier = _index_items(schema, old)
        for index, item in enumerate(value):
            before = earlier.get(_make_key(schema, item), _MISSING)
            yield from _find_changes(items, item, before, f"{path}[{index}]")


def _has_rules(schema: Object) -> bool:
    """Return whether a schema has CEL rules, at any depth."""
    if schema.get("x-kubernetes-validations"):
        return True
    inner = [
        *(schema.get("properties") or {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return any(_has_rules(each) for each in inner if isinstance(each, dict))


def _get(value: JsonValue, key: str) -> JsonValue:
    return value.get(key, _MISSING) if isinstance(value, dict) else _MISSING


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
