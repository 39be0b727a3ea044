"""Field errors with Kubernetes' reasons and wording. Each reason has one function."""

import json
from collections.abc import Callable, Iterable, Sequence

from dradriver.cluster.apiserver.formats.values import JsonValue
from dradriver.cluster.apiserver.status import Cause

Causes = list[Cause]


def _show(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:  # the value contains raw bytes
        return '"<value omitted>"'


def required(path: str, detail: str = "") -> Cause:
    """Return the cause for a missing field."""
    return Cause("FieldValueRequired", "Required value" + (f": {detail}" if detail else ""), path)


def invalid(path: str, value: JsonValue, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_show(value)}: {detail}", path)


def not_supported(path: str, value: JsonValue, supported: Iterable[str]) -> Cause:
    """Return the cause for a value outside a fixed set."""
    listed = ", ".join(_show(each) for each in supported)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {listed}", path
    )


def forbidden(path: str, detail: str) -> Cause:
    """Return the cause for a field that may not be set, or may not be set in this way."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", path)


def duplicate(path: str, value: JsonValue) -> Cause:
    """Return the cause for a duplicate value."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_show(value)}", path)


def too_long(path: str, limit: int) -> Cause:
    """Return the cause for a value with too many bytes."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)


def too_many(path: str, count: int, limit: int) -> Cause:
    """Return the cause for a list with too many items."""
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}", path)


def not_found(path: str, value: JsonValue, detail: str = "") -> Cause:
    """Return the cause for a value that refers to nothing."""
    message = f"Not found: {_show(value)}" + (f": {detail}" if detail else "")
    return Cause("FieldValueNotFound", message, path)


def immutable(path: str, value: JsonValue) -> Cause:
    """Return the cause for a change of an immutable field."""
    return invalid(path, value, "field is immutable")


def check_each(
    items: Sequence[JsonValue] | None, limit: int, check: Callable[[JsonValue, str], Causes], path: str
) -> Causes:
    """Check every item of a list.

    If the list has more than `limit` items (-1: no limit), only this error is reported.
    """
    items = items or ()
    if 0 <= limit < len(items):
        return [too_many(path, len(items), limit)]
    return [cause for index, item in enumerate(items) for cause in check(item, f"{path}[{index}]")]


def check_unique(
    items: Sequence[JsonValue] | None,
    limit: int,
    check: Callable[[JsonValue, str], Causes],
    key: Callable[[JsonValue], JsonValue],
    path: str,
    *,
    show_item: bool = True,
) -> Causes:
    """Check every item like `check_each`, and check that no two items have the same key.

    If `show_item` is true, the cause shows the duplicate item, else only its key.
    """
    items = items or ()
    if 0 <= limit < len(items):
        return [too_many(path, len(items), limit)]
    causes = check_each(items, -1, check, path)
    seen: set[JsonValue] = set()
    for index, item in enumerate(items):
        name = key(item)
        if name in seen:
            causes.append(duplicate(f"{path}[{index}]", item if show_item else name))
        seen.add(name)
    return causes
