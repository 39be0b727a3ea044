"""Server-side apply and the ownership of fields (`metadata.managedFields`).

`apply` merges a manager's configuration into the live object. It rejects a change of a field that another
manager owns, and removes fields that the manager owned, no longer wants, and no other manager owns.
`record_update` records the fields that any other write changed, so that a later apply finds the conflict.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dradriver.cluster.apiserver.fields.field_sets import (
    SELF,
    Path,
    always_there,
    containers,
    from_tree,
    item_key,
    leaves,
    readable,
    to_tree,
)
from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, struct, zeros
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


def _entries(obj: Object) -> list[Object]:
    return list(obj.get("metadata", {}).get("managedFields") or ())


def set_entries(obj: Object, entries: Iterable[Object]) -> None:
    """Write managedFields in place, without owners that own nothing."""
    kept = sorted((entry for entry in entries if entry.get("fieldsV1")), key=_order)
    if kept:
        obj["metadata"]["managedFields"] = kept
    else:
        obj["metadata"].pop("managedFields", None)


def _order(entry: Object) -> tuple[str, ...]:
    return tuple(
        entry.get(field, "") for field in ("operation", "time", "manager", "apiVersion", "subresource")
    )


def _without(entry: Object, taken: set[Path]) -> Object:
    owned = from_tree(entry.get("fieldsV1") or {})
    if not owned & taken:
        return entry
    return {**entry, "fieldsV1": to_tree(owned - taken)}


def record_update(
    name: str | None,
    old: Object | None,
    new: Object,
    manager: Manager,
    now: str,
    written: Callable[[Path], bool] = lambda _path: True,
) -> list[Object]:
    """Return the entries of managedFields after a write that changed `old` to `new`. Both must be thawed.

    Paths for which `written` returns False were not changed by the writer.
    """
    # A new object is compared with Go's zero value of the struct.
    blank = zeros(name) if name is not None else {}
    before = leaves(name, blank if old is None else old)
    after = leaves(name, new)
    around = containers(name, blank if old is None else old)
    standing = containers(name, new)
    always = always_there(name) if name is not None else frozenset()
    added = standing - around - set(before) - always
    changed = {path for path, value in after.items() if before.get(path, _MISSING) != value} | added
    changed = {path for path in changed if written(path)}
    gone = {path for path in {*before, *around} if path not in after and path not in standing and written(path)}
    entries = _entries(new)
    if not changed and not gone:
        return entries
    mine = next((entry for entry in entries if manager.owns(entry)), None)
    others = [_without(entry, changed | gone) for entry in entries if entry is not mine]
    owned = from_tree(mine.get("fieldsV1") or {}) if mine else set()
    return [*others, manager.entry((owned | changed) - gone, now)]


@dataclass(frozen=True, slots=True)
class Applied:
    """The merged object (without its new managedFields) and the fields that the manager now owns."""

    object: Object
    paths: set[Path]
    others: list[Object]


def apply(name: str | None, live: Object, config: Object, manager: Manager, *, force: bool) -> Applied:
    """Merge a manager's configuration into the live object.

    Args:
        name: the object's struct, None for a custom resource.
        live: the stored object, thawed; for a new object only its metadata.
        config: the manager's configuration, thawed.
        manager: the applier.
        force: take over fields that others own.

    Raises:
        StatusError: 409, when others own fields that would change.
    """
    wanted = leaves(name, config)
    present = leaves(name, live)
    entries = _entries(live)
    mine = next((entry for entry in entries if manager.owns(entry)), None)
    others = [entry for entry in entries if entry is not mine]
    differing = {path for path, value in wanted.items() if _differs(value, present.get(path, _MISSING))}
    conflicts = [
        (entry, paths) for entry in others if (paths := from_tree(entry.get("fieldsV1") or {}) & differing)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    others = [_without(entry, differing) for entry in others]
    merged = _merge_object(name, live, config)
    kept: set[Path] = set().union(*(from_tree(entry.get("fieldsV1") or {}) for entry in others), set(wanted))
    dropped = (from_tree(mine.get("fieldsV1") or {}) if mine else set()) - kept
    # A map that was owned as empty may now hold entries that a manager wants.
    holding = {path[:size] for path in kept for size in range(1, len(path))}
    for path in sorted(dropped - holding, key=lambda each: (-len(each), each)):
        if not _names_kept_item(path, holding):
            _remove(merged, path)
    return Applied(merged, set(wanted), others)


def _names_kept_item(path: Path, holding: set[Path]) -> bool:
    """Return whether a path is an item, or one of its keys, in which another manager still owns a field."""
    item, last = path[:-1], path[-1]
    if item not in holding or not item[-1].startswith("k:"):
        return False
    return last == SELF or last[2:] in json.loads(item[-1][2:])


def _differs(wanted: JsonValue, present: JsonValue) -> bool:
    # An empty map requires no entries: those that others add stay theirs.
    return bool(wanted != present) and not (wanted == {} and present is _MISSING)


def record_apply(obj: Object, applied: Applied, manager: Manager, now: str) -> None:
    """Record the ownership after an apply in `obj` (changed in place)."""
    mine = next((entry for entry in _entries(obj) if manager.owns(entry)), None)
    entry = manager.entry(applied.paths, now)
    if mine is not None and mine.get("fieldsV1") == entry["fieldsV1"]:
        entry["time"] = mine.get("time", now)
    set_entries(obj, [*applied.others, entry])


def _conflict(conflicts: list[tuple[Object, set[Path]]]) -> StatusError:
    causes: list[Cause] = []
    for entry, paths in conflicts:
        using = f" using {entry['apiVersion']}" if entry.get("operation") == "Update" else ""
        who = f'conflict with "{entry.get("manager", "")}"{_subresource(entry)}{using}'
        causes.extend(Cause("FieldManagerConflict", who, readable(path)) for path in sorted(paths))
    listed = "\n".join(f"- {cause.field}" for cause in causes)
    count = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    if len(causes) == 1:
        message = f"Apply failed with {count}: {causes[0].message}: {causes[0].field}"
    else:
        message = f"Apply failed with {count}: {causes[0].message}:\n{listed}"
    return StatusError(409, "Conflict", message, None, causes)


def _subresource(entry: Object) -> str:
    return f' with subresource "{entry["subresource"]}"' if entry.get("subresource") else ""


def _merge_object(name: str | None, live: Object, config: Object) -> Object:
    kind = SchemaType("struct", struct=name) if name is not None else None
    result = dict(live)
    fields = struct(name).fields if kind is not None and name is not None else {"metadata": _METADATA}
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
    fields = struct(kind.struct).fields if kind is not None and kind.kind == "struct" else {}
    element = Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
    for key, item in value.items():
        result[key] = _merge(fields.get(key, element), live.get(key), item)
    return result


def _merge_items(known: Field, live: list[JsonValue], value: list[JsonValue]) -> list[JsonValue]:
    result = list(live)
    index = {item_key(item, known.keys): position for position, item in enumerate(live)}
    for item in value:
        position = index.get(item_key(item, known.keys))
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
        node = _own_child(node, element)
        if node is None:
            return
    last = path[-2] if path[-1] == SELF else path[-1]
    if last.startswith("f:") and isinstance(node, dict):
        node.pop(last[2:], None)
    elif isinstance(node, list):
        node[:] = [item for item in node if not _is_item(item, last)]


def _own_child(node: JsonValue, element: str) -> JsonValue:
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
    return isinstance(item, dict) and item_key(item, wanted) == element
