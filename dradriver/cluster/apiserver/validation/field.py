"""Field errors: Kubernetes' reasons and wording, one function each."""

import json
from collections.abc import Callable, Iterable, Sequence

from dradriver.cluster.apiserver.formats.values import JsonValue
from dradriver.cluster.apiserver.status import Cause

Causes = list[Cause]


def _shown(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:  # the value contains raw bytes
        return '"<value omitted>"'


def required(path: str, detail: str = "") -> Cause:
    """Return the cause for a missing field."""
    return Cause("FieldValueRequired", "Required value" + (f": {detail}" if detail else ""), path)


def invalid(path: str, value: JsonValue, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}", path)


def not_supported(path: str, value: JsonValue, supported: Iterable[str]) -> Cause:
    """Return the cause for a value outside a fixed set."""
    listed = ", ".join(_shown(each) for each in supported)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}", path
    )


def forbidden(path: str, detail: str) -> Cause:
    """Return the cause for a field that may not be set, or not in this way."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", path)


def duplicate(path: str, value: JsonValue) -> Cause:
    """Return the cause for a duplicate value."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", path)


def too_long(path: str, limit: int) -> Cause:
    """Return the cause for a value with too many bytes."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)


def too_many(path: str, count: int, limit: int) -> Cause:
    """Return the cause for a list with too many items."""
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}", path)


def not_found(path: str, value: JsonValue, detail: str = "") -> Cause:
    """Return the cause for a value that refers to nothing."""
    said = f"Not found: {_shown(value)}" + (f": {detail}" if detail else "")
    return Cause("FieldValueNotFound", said, path)


def internal(path: str, detail: str) -> Cause:
    """Return the cause for a check that failed itself."""
    return Cause("InternalError", f"Internal error: {detail}", path)


def immutable(path: str, value: JsonValue) -> Cause:
    """Return the cause for a change of an immutable field."""
    return invalid(path, value, "field is immutable")


def each(
    items: Sequence[JsonValue] | None, limit: int, check: Callable[[JsonValue, str], Causes], path: str
) -> Causes:
    """Check every item of a list. With more than `limit` items (-1: no limit), only that is reported."""
    items = items or ()
    if 0 <= limit < len(items):
        return [too_many(path, len(items), limit)]
    return [cause for index, item in enumerate(items) for cause in check(item, f"{path}[{index}]")]


def unique(
    items: Sequence[JsonValue] | None,
    limit: int,
    check: Callable[[JsonValue, str], Causes],
    key: Callable[[JsonValue], JsonValue],
    path: str,
    *,
    whole: bool = True,
) -> Causes:
    """Check every item like `each`, and that no two have the same key; the cause shows the item or its key."""
    items = items or ()
    if 0 <= limit < len(items):
        return [too_many(path, len(items), limit)]
    causes = each(items, -1, check, path)
    seen: set[JsonValue] = set()
    for index, item in enumerate(items):
        name = key(item)
        if name in seen:
            causes.append(duplicate(f"{path}[{index}]", item if whole else name))
        seen.add(name)
    return causes
