"""Server-side apply and the ownership of fields (`metadata.managedFields`).

`apply` merges a manager's configuration into the live object. It rejects a change of a field that another
manager owns. If the new configuration lacks a field that only this manager owned, `apply` removes the field. If
a write is not an apply, `record_update` records the fields that it changed, so that a later apply finds a
conflict.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dradriver.cluster.apiserver.fields.differences import select_differences
from dradriver.cluster.apiserver.fields.field_sets import (
    SELF,
    Path,
    collect_containers,
    collect_leaves,
    contains_path,
    find_permanent_containers,
    format_item_key,
    format_path,
    from_tree,
    to_tree,
)
from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, get_members, get_zeros, to_type
from dradriver.cluster.apiserver.status import Cause, StatusError

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Manager:
    """The manager of a write. Name, operation, API version and subresource identify it."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def owns(self, entry: Object) -> bool:
        """Return whether an entry of managedFields belongs to this manager."""
        return (
            entry.get("manager", "") == self.name
            and entry.get("operation") == self.operation
            and entry.get("apiVersion") == self.api_version
            and entry.get("subresource", "") == self.subresource
        )

    def entry(self, paths: set[Path], now: str) -> Object:
        """Return the manager's entry for these paths."""
        entry: Object = {
            "manager": self.name, "operation": self.operation, "apiVersion": self.api_version, "time": now,
            "fieldsType": "FieldsV1", "fieldsV1": to_tree(paths),
        }  # fmt: skip
        return {**entry, "subresource": self.subresource} if self.subresource else entry


def _read_entries(obj: Object) -> list[Object]:
    return list(obj.get("metadata", {}).get("managedFields") or ())


def set_entries(obj: Object, entries: Iterable[Object]) -> None:
    """Write managedFields in place. Entries of owners that own no field are left out."""
    kept = sorted((entry for entry in entries if entry.get("fieldsV1")), key=_sort_key)
    if kept:
        obj["metadata"]["managedFields"] = kept
    else:
        obj["metadata"].pop("managedFields", None)


def _sort_key(entry: Object) -> tuple[str, ...]:
    return tuple(
        entry.get(field, "") for field in ("operation", "time", "manager", "apiVersion", "subresource")
    )


def _remove_paths(entry: Object, paths: set[Path]) -> Object:
    tree = entry.get("fieldsV1") or {}
    if not any(contains_path(tree, path) for path in paths):
        return entry
    return {**entry, "fieldsV1": to_tree(from_tree(tree) - paths)}


def record_update(
    kind: str | SchemaType | None,
    old: Object | None,
    new: Object,
    manager: Manager,
    now: str,
    is_written: Callable[[Path], bool] = lambda _path: True,
) -> list[Object]:
    """Return the entries of managedFields after a write that changed `old` to `new`.

    `kind` is the type of the object, or the name of its struct; None for an object without a schema. If
    `is_written` returns False for a path, the writer did not change that path.
    """
    # A new object is compared with the struct's zero value in Go.
    blank = get_zeros(kind) if isinstance(kind, str) else {}
    old_part, new_part = select_differences(blank if old is None else old, new)
    before, after = collect_leaves(kind, old_part), collect_leaves(kind, new_part)
    old_containers, new_containers = collect_containers(before), collect_containers(after)
    permanent = find_permanent_containers(kind) if isinstance(kind, str) else frozenset()
    added = new_containers - old_containers - set(before) - permanent
    changed = {path for path, value in after.items() if before.get(path, _MISSING) != value} | added
    changed = {path for path in changed if is_written(path)}
    removed = {
        path
        for path in {*before, *old_containers}
        if path not in after and path not in new_containers and is_written(path)
    }
    entries = _read_entries(new)
    if not changed and not removed:
        return entries
    own_entry = next((entry for entry in entries if manager.owns(entry)), None)
    other_entries = [_remove_paths(entry, changed | removed) for entry in entries if entry is not own_entry]
    owned = from_tree(own_entry.get("fieldsV1") or {}) if own_entry else set()
    return [*other_entries, manager.entry((owned | changed) - removed, now)]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The merged object (without its new managedFields) and the fields that the manager now owns."""

    object: Object
    paths: set[Path]
    other_entries: list[Object]


def apply(
    kind: str | SchemaType | None, live: Object, config: Object, manager: Manager, *, force: bool
) -> ApplyResult:
    """Merge a manager's configuration into the live object.

    Args:
        kind: the type of the object, or the name of its struct; None for an object without a schema.
        live: the stored object, thawed; for a new object, only its metadata.
        config: the manager's configuration, thawed.
        manager: the manager that applies the configuration.
        force: whether the manager takes over fields that other managers own.

    Raises:
        StatusError: 409: other managers own fields that would change.
    """
    wanted = collect_leaves(kind, config)
    present = collect_leaves(kind, live)
    entries = _read_entries(live)
    own_entry = next((entry for entry in entries if manager.owns(entry)), None)
    other_entries = [entry for entry in entries if entry is not own_entry]
    differing = {path for path, value in wanted.items() if _differs(value, present.get(path, _MISSING))}
    conflicts = [
        (entry, paths)
        for entry in other_entries
        if (paths := from_tree(entry.get("fieldsV1") or {}) & differing)
    ]
    if conflicts and not force:
        raise _conflict_error(conflicts)
    other_entries = [_remove_paths(entry, differing) for entry in other_entries]
    merged = _merge_object(to_type(kind), live, config)
    kept: set[Path] = set().union(
        *(from_tree(entry.get("fieldsV1") or {}) for entry in other_entries), set(wanted)
    )
    dropped = (from_tree(own_entry.get("fieldsV1") or {}) if own_entry else set()) - kept
    # A map was owned as an empty map, but may now contain entries that a manager wants.
    parents = {path[:size] for path in kept for size in range(1, len(path))}
    for path in sorted(dropped - parents, key=lambda each: (-len(each), each)):
        if not _is_key_of_kept_item(path, parents):
            _remove(merged, path)
    return ApplyResult(merged, set(wanted), other_entries)


def _is_key_of_kept_item(path: Path, parents: set[Path]) -> bool:
    """Return whether a path is a list item with fields that a manager still owns, or a key of such an item."""
    item, last = path[:-1], path[-1]
    if item not in parents or not item[-1].startswith("k:"):
        return False
    return last == SELF or last[2:] in json.loads(item[-1][2:])


def _differs(wanted: JsonValue, present: JsonValue) -> bool:
    # If a manager applies an empty map, it requires no entries. Other managers keep the entries that they add.
    return bool(wanted != present) and not (wanted == {} and present is _MISSING)


def record_apply(obj: Object, applied: ApplyResult, manager: Manager, now: str) -> None:
    """Record the ownership after an apply in `obj` (changed in place)."""
    own_entry = next((entry for entry in _read_entries(obj) if manager.owns(entry)), None)
    entry = manager.entry(applied.paths, now)
    if own_entry is not None and own_entry.get("fieldsV1") == entry["fieldsV1"]:
        entry["time"] = own_entry.get("time", now)
    set_entries(obj, [*applied.other_entries, entry])


def _conflict_error(conflicts: list[tuple[Object, set[Path]]]) -> StatusError:
    causes: list[Cause] = []
    for entry, paths in conflicts:
        using = f" using {entry['apiVersion']}" if entry.get("operation") == "Update" else ""
        message = f'conflict with "{entry.get("manager", "")}"{_format_subresource(entry)}{using}'
        causes.extend(Cause("FieldManagerConflict", message, format_path(path)) for path in sorted(paths))
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
        return StatusError(409, "Conflict", message, None, causes)
    lines = []
    for about in dict.fromkeys(cause.message for cause in causes):
        lines.append(about.replace("conflict", "conflicts", 1) + ":")
        lines += [f"- {cause.field}" for cause in causes if cause.message == about]
    listed = "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {len(causes)} conflicts: {listed}", None, causes)


def _format_subresource(entry: Object) -> str:
    return f' with subresource "{entry["subresource"]}"' if entry.get("subresource") else ""


def _merge_object(kind: SchemaType | None, live: Object, config: Object) -> Object:
    result = dict(live)
    fields = get_members(kind) if kind is not None else {"metadata": _METADATA}
    for key, value in config.items():
        result[key] = _merge(fields.get(key), live.get(key), value)
    return result


_METADATA = Field(SchemaType("struct", struct="meta.ObjectMeta"), omitempty=True)


def _merge(known: Field | None, live: JsonValue, value: JsonValue) -> JsonValue:
    if isinstance(value, dict) and isinstance(live, dict) and not (known and known.list_type == "atomic"):
        return _merge_members(known.type if known else None, live, value)
    if isinstance(value, list) and isinstance(live, list) and known is not None:
        if known.list_type == "set":
            present = {json.dumps(item) for item in live}
            return [*live, *(item for item in value if json.dumps(item) not in present)]
        if known.list_type == "map":
            return _merge_items(known, live, value)
    return value


def _merge_members(kind: SchemaType | None, live: Object, value: Object) -> Object:
    result = dict(live)
    fields = get_members(kind) if kind is not None else {}
    element = Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
    for key, item in value.items():
        result[key] = _merge(fields.get(key, element), live.get(key), item)
    return result


def _merge_items(known: Field, live: list[JsonValue], value: list[JsonValue]) -> list[JsonValue]:
    result = list(live)
    index = {format_item_key(item, known.keys): position for position, item in enumerate(live)}
    for item in value:
        position = index.get(format_item_key(item, known.keys))
        if position is None:
            result.append(item)
        else:
            result[position] = _merge_members(known.type.element, result[position], item)
    return result


def _remove(obj: JsonValue, path: Path) -> None:
    """Remove one owned path from the merged object.

    Containers on the path are copied, never shared with the live object.
    """
    node, parents = obj, path[:-1]
    if path[-1] == SELF:
        parents = path[:-2]
    for element in parents:
        node = _copy_child(node, element)
        if node is None:
            return
    last = path[-2] if path[-1] == SELF else path[-1]
    if last.startswith("f:") and isinstance(node, dict):
        node.pop(last[2:], None)
    elif isinstance(node, list):
        node[:] = [item for item in node if not _is_item(item, last)]


def _copy_child(node: JsonValue, element: str) -> JsonValue:
    if element.startswith("f:") and isinstance(node, dict):
        child = node.get(element[2:])
        if isinstance(child, (dict, list)):
            node[element[2:]] = child.copy()
            return node[element[2:]]
    elif isinstance(node, list):
        for position, item in enumerate(node):
            if _is_item(item, element) and isinstance(item, dict):
                node[position] = item.copy()
                return node[position]
    return None


def _is_item(item: JsonValue, element: str) -> bool:
    wanted = json.loads(element[2:])
    if element.startswith("v:"):
        return bool(item == wanted)
    return isinstance(item, dict) and format_item_key(item, wanted) == element
