"""Field sets: the fields of an object that a manager owns, as server-side apply defines them.

A path is a tuple of elements as in `fieldsV1`: `f:spec`, `k:{"name":"a"}` for an item of a keyed list, `v:"x"`
for a member of a set, `.` for the item or map itself. `collect_leaves` returns the value of each path that can
be owned. All other operations are operations on sets. If a map or list itself is owned, the set contains only
its path, and `fieldsV1` contains an additional `.`. For members of keyed lists, both the set and `fieldsV1`
contain the `.`. The writer of an entry of a map owns the entry itself, too. Where a schema has no fields, maps
are granular and lists are atomic.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cache
from typing import TypeAlias

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, get_fields, get_members, to_type

Path: TypeAlias = tuple[str, ...]
Leaves: TypeAlias = dict[Path, JsonValue]

SELF = "."
_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_METADATA = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
})  # fmt: skip
# Keys that have a default in the schema, so that an item may omit them.
_KEY_DEFAULTS = {"protocol": "TCP"}


def format_item_key(item: JsonValue, keys: Iterable[str]) -> str:
    """Return the path element of an item in a keyed list."""
    values = {}
    for key in keys:
        value = item.get(key, _KEY_DEFAULTS.get(key)) if isinstance(item, dict) else None
        if value is not None:
            values[key] = value
    return "k:" + json.dumps(values, separators=(",", ":"), sort_keys=True)


def collect_leaves(kind: str | SchemaType | None, obj: Object) -> Leaves:
    """Return the value of every path of an object that can be owned.

    Args:
        kind: the type of the object, or the name of its struct; None for an object without a schema.
        obj: the object; raw leaves must be thawed.
    """
    leaves: Leaves = {}
    known = to_type(kind)
    fields = get_members(known) if known is not None else {}
    for key, value in obj.items():
        if key in _UNOWNED:
            continue
        if key == "metadata" and isinstance(value, dict):
            kept = {each: item for each, item in value.items() if each not in _UNOWNED_METADATA}
            for each, item in kept.items():
                _walk(get_fields("meta.ObjectMeta").get(each), item, ("f:metadata", f"f:{each}"), leaves)
        else:
            _walk(fields.get(key), value, (f"f:{key}",), leaves)
    return leaves


def _walk(known: Field | None, value: JsonValue, path: Path, leaves: Leaves) -> None:
    if isinstance(value, dict) and value and not (known and known.list_type == "atomic"):
        _walk_members(known.type if known else None, value, path, leaves)
    elif isinstance(value, list) and value and known is not None and known.list_type == "map":
        _walk_items(known, value, path, leaves)
    elif isinstance(value, list) and value and known is not None and known.list_type == "set":
        for item in value:
            leaves[(*path, "v:" + json.dumps(item, separators=(",", ":")))] = item
    else:
        leaves[path] = value


def _walk_members(kind: SchemaType | None, value: Object, path: Path, leaves: Leaves) -> None:
    if kind is not None and kind.kind == "struct":
        fields = get_members(kind)
        for key, item in value.items():
            _walk_entry(fields.get(key), item, (*path, f"f:{key}"), leaves, is_field=key in fields)
    elif kind is None or kind.kind == "map":
        element = (
            Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
        )
        for key, item in value.items():
            _walk_entry(element, item, (*path, f"f:{key}"), leaves, is_field=False)
    else:  # quantity, raw ... : one value
        leaves[path] = value


def _walk_entry(known: Field | None, value: JsonValue, path: Path, leaves: Leaves, *, is_field: bool) -> None:
    _walk(known, value, path, leaves)
    if not is_field:
        leaves.setdefault(path, None)


def _walk_items(known: Field, items: list[JsonValue], path: Path, leaves: Leaves) -> None:
    element = known.type.element
    for item in items:
        at = (*path, format_item_key(item, known.keys))
        leaves[(*at, SELF)] = None
        if isinstance(item, dict) and element is not None:
            _walk_members(element, item, at, leaves)


def find_duplicates(name: str, obj: Object) -> Iterator[Path]:
    """Yield the duplicate members of keyed lists, each as the path of its list and its key."""

    def visit(known: Field | None, value: JsonValue, path: Path) -> Iterator[Path]:
        kind = known.type if known is not None else None
        if isinstance(value, list) and known is not None and known.list_type == "map":
            keys = [format_item_key(item, known.keys) for item in value]
            seen: set[str] = set()
            for key in keys:
                if key in seen:
                    yield (*path, key)
                seen.add(key)
            for key, item in zip(keys, value, strict=True):
                element = Field(kind.element, omitempty=False) if kind and kind.element else None
                yield from visit(element, item, (*path, key))
        elif isinstance(value, dict) and kind is not None and kind.kind == "struct":
            fields = get_fields(kind.struct)
            for key, item in value.items():
                yield from visit(fields.get(key), item, (*path, f"f:{key}"))

    yield from visit(Field(SchemaType("struct", struct=name), omitempty=False), obj, ())


def collect_containers(leaves: Leaves) -> set[Path]:
    """Return the maps and lists that contain an object's leaves, except members of keyed lists.

    A writer that creates a container owns it. The container therefore stays when its content has no owners any
    more.
    """
    below = (path[:-1] if path[-1] == SELF else path for path in leaves)
    around = {path[:size] for path in below for size in range(1, len(path))}
    return {path for path in around if path != ("f:metadata",) and not path[-1].startswith("k:")}


@cache
def find_permanent_containers(name: str) -> frozenset[Path]:
    """Return the containers that every object of a struct has: Go's structs and lists that are not pointers."""
    paths: set[Path] = set()

    def visit(kind: str, path: Path) -> None:
        for key, known in get_fields(kind).items():
            here, by_value = (*path, f"f:{key}"), not known.type.pointer
            if known.type.kind == "struct" and by_value:
                paths.add(here)
                visit(known.type.struct, here)
            elif known.type.kind in {"list", "map"} and not known.omitempty:
                paths.add(here)

    visit(name, ())
    return frozenset(paths)


def to_tree(paths: Set[Path]) -> Object:
    """Return the set as a `fieldsV1` object."""
    tree: Object = {}
    for path in sorted(paths):
        node = tree
        before: Path = ()
        for element in path:
            if before in paths and element != SELF:
                node.setdefault(SELF, {})
            node, before = node.setdefault(element, {}), (*before, element)
    return tree


def from_tree(tree: Object) -> set[Path]:
    """Return the set of a `fieldsV1` object."""
    paths: set[Path] = set()

    def visit(node: Object, path: Path) -> None:
        for element, below in node.items():
            if below:
                visit(below, (*path, element))
            elif element == SELF and not path[-1].startswith("k:"):
                paths.add(path)
            else:
                paths.add((*path, element))

    visit(tree, ())
    return paths


def contains_path(tree: Object, path: Path) -> bool:
    """Return whether the set of a `fieldsV1` object contains a path."""
    node = tree
    for element in path:
        below = node.get(element)
        if below is None:
            return False
        node = below
    return not node or (SELF in node and not path[-1].startswith("k:"))


def format_path(path: Path) -> str:
    """Return the path in the form of conflict messages: `.spec.devices`, `.items[name="a"]`."""
    writers: dict[str, Callable[[str], str]] = {
        "f:": lambda text: f".{text}",
        "v:": lambda text: f"[={text}]",
        "k:": lambda text: "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(text).items()) + "]",
    }
    return "".join(writers[element[:2]](element[2:]) for element in path if element != SELF)
