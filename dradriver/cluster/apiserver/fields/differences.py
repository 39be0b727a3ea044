"""Selects the parts of two versions of an object that differ, because a write seldom changes a large part."""

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.decode import thaw

_EQUAL = ""
"""Replaces equal members. It is a scalar, so field sets contain its path as a leaf in both versions."""


def select_differences(old: Object, new: Object) -> tuple[Object, Object]:
    """Return both objects, thawed, with a placeholder instead of each member that is equal in both.

    The placeholders keep the maps around equal members, so no map seems to be new or removed.
    """
    old_part: Object = {}
    new_part: Object = {}
    for key, before in old.items():
        if key not in new:
            old_part[key] = thaw(before)
            continue
        old_part[key], new_part[key] = _select(before, new[key])
    for key, after in new.items():
        if key not in old:
            new_part[key] = thaw(after)
    return old_part, new_part


def _select(before: JsonValue, after: JsonValue) -> tuple[JsonValue, JsonValue]:
    if before == after:
        return _EQUAL, _EQUAL
    if before and after and isinstance(before, dict) and isinstance(after, dict):
        return select_differences(before, after)
    return thaw(before), thaw(after)
