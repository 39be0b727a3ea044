"""Field errors: Kubernetes' reasons and wording, one function each."""

import json
from collections.abc import Callable, Iterable, Sequence

from dradriver.cluster.apiserver.formats.values import JsonValue
from dradriver.cluster.apiserver.status import Cause

Causes = list[Cause]


def _shown(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:  # raw bytes somewhere inside
        return '"<value omitted>"'


def required(path: str, detail: str = "") -> Cause:
    """The field must be set."""
    return Cause("FieldValueRequired", "Required value" + (f": {detail}" if detail else ""), path)


def invalid(path: str, value: JsonValue, detail: str) -> Cause:
    """The value breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}", path)


def not_supported(path: str, value: JsonValue, supported: Iterable[str]) -> Cause:
    """The value is not one of a fixed set."""
    listed = ", ".join(_shown(each) for each in supported)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}", path
    )


def forbidden(path: str, detail: str) -> Cause:
    """The field may not be set, or not like this."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", path)


def duplicate(path: str, value: JsonValue) -> Cause:
    """The value occurs twice."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", path)


def too_long(path: str, limit: int) -> Cause:
    """More bytes than allowed."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)


def too_many(path: str, count: int, limit: int) -> Cause:
    """More items than allowed."""
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}", path)


def not_found(path: str, value: JsonValue, detail: str = "") -> Cause:
    """The value refers to nothing."""
    said = f"Not found: {_shown(value)}" + (f": {detail}" if detail else "")
    return Cause("FieldValueNotFound", said, path)


def internal(path: str, detail: str) -> Cause:
    """The check itself failed."""
    return Cause("InternalError", f"Internal error: {detail}", path)


def immutable(path: str, value: JsonValue) -> Cause:
    """The field may not change."""
    return invalid(path, value, "field is immutable")


def each(
    items: Sequence[JsonValue] | None, limit: int, check: Callable[[JsonValue, str], Causes], path: str
) -> Causes:
    """Check every item of a list; with more than `limit` (-1: no limit) only that is reported."""
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
    """Like `each`, and no two items may have the same key; a refusal shows the second item, or its key."""
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
