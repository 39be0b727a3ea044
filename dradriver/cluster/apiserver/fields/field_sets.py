"""Field sets: the fields that a manager owns, as server-side apply sees an object.

A path is a tuple of elements as in `fieldsV1`: `f:spec`, `k:{"name":"a"}` for an item of a keyed list, `v:"x"`
for a member of a set, `.` for the item or map itself. `leaves` maps each owned path of an object to its value;
the rest is set arithmetic. A map or list that is owned itself is its path alone in a set and has a `.` in
`fieldsV1`, as members of keyed lists do in both. Without a schema (custom resources) maps are granular and
lists are atomic.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cache
from typing import TypeAlias

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, struct

Path: TypeAlias = tuple[str, ...]
Leaves: TypeAlias = dict[Path, JsonValue]

SELF = "."
_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_METADATA = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
})  # fmt: skip
# Keys with a default in the schema, which an item may omit.
_KEY_DEFAULTS = {"protocol": "TCP"}


def item_key(item: JsonValue, keys: Iterable[str]) -> str:
    """Return the path element of an item in a keyed list."""
    found = {}
    for key in keys:
        value = item.get(key, _KEY_DEFAULTS.get(key)) if isinstance(item, dict) else None
        if value is not None:
            found[key] = value
    return "k:" + json.dumps(found, separators=(",", ":"), sort_keys=True)


def leaves(name: str | None, obj: Object) -> Leaves:
    """Return every path of an object that can be owned, with its value.

    Args:
        name: the object's struct, None for an object without a schema.
        obj: the object; raw leaves must be thawed.
    """
    found: Leaves = {}
    fields = struct(name).fields if name is not None else {}
    for key, value in obj.items():
        if key in _UNOWNED:
            continue
        if key == "metadata" and isinstance(value, dict):
            kept = {each: item for each, item in value.items() if each not in _UNOWNED_METADATA}
            for each, item in kept.items():
                _walk(struct("meta.ObjectMeta").fields.get(each), item, ("f:metadata", f"f:{each}"), found)
        else:
            _walk(fields.get(key), value, (f"f:{key}",), found)
    return found


def _walk(known: Field | None, value: JsonValue, path: Path, found: Leaves) -> None:
    if isinstance(value, dict) and value and not (known and known.list_type == "atomic"):
        _walk_members(known.type if known else None, value, path, found)
    elif isinstance(value, list) and value and known is not None and known.list_type == "map":
        _walk_items(known, value, path, found)
    elif isinstance(value, list) and value and known is not None and known.list_type == "set":
        for item in value:
            found[(*path, "v:" + json.dumps(item, separators=(",", ":")))] = item
    else:
        found[path] = value


def _walk_members(kind: SchemaType | None, value: Object, path: Path, found: Leaves) -> None:
    if kind is not None and kind.kind == "struct":
        fields = struct(kind.struct).fields
        for key, item in value.items():
            _walk(fields.get(key), item, (*path, f"f:{key}"), found)
    elif kind is None or kind.kind == "map":
        element = (
            Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
        )
        for key, item in value.items():
            _walk(element, item, (*path, f"f:{key}"), found)
    else:  # quantity, raw ... : one value
        found[path] = value


def _walk_items(known: Field, items: list[JsonValue], path: Path, found: Leaves) -> None:
    element = known.type.element
    for item in items:
        at = (*path, item_key(item, known.keys))
        found[(*at, SELF)] = None
        if isinstance(item, dict) and element is not None:
            _walk_members(element, item, at, found)


def repeated(name: str, obj: Object) -> Iterator[Path]:
    """Yield the duplicate members of keyed lists, each as the path of its list and its key."""

    def visit(known: Field | None, value: JsonValue, path: Path) -> Iterator[Path]:
        kind = known.type if known is not None else None
        if isinstance(value, list) and known is not None and known.list_type == "map":
            keys = [item_key(item, known.keys) for item in value]
            seen: set[str] = set()
            for key in keys:
                if key in seen:
                    yield (*path, key)
                seen.add(key)
            for key, item in zip(keys, value, strict=True):
                element = Field(kind.element, omitempty=False) if kind and kind.element else None
                yield from visit(element, item, (*path, key))
        elif isinstance(value, dict) and kind is not None and kind.kind == "struct":
            fields = struct(kind.struct).fields
            for key, item in value.items():
                yield from visit(fields.get(key), item, (*path, f"f:{key}"))

    yield from visit(Field(SchemaType("struct", struct=name), omitempty=False), obj, ())


def containers(name: str | None, obj: Object) -> set[Path]:
    """Return the maps and lists that hold the fields of an object, except members of keyed lists.

    The writer of a new container owns it, and so keeps it when the owners of its content are gone.
    """
    below = (path[:-1] if path[-1] == SELF else path for path in leaves(name, obj))
    around = {path[:size] for path in below for size in range(1, len(path))}
    return {path for path in around if path != ("f:metadata",) and not path[-1].startswith("k:")}


@cache
def always_there(name: str) -> frozenset[Path]:
    """Return the containers that every object of a struct has: Go's structs and lists that are not pointers."""
    found: set[Path] = set()

    def visit(kind: str, path: Path) -> None:
        for key, known in struct(kind).fields.items():
            here, by_value = (*path, f"f:{key}"), not known.type.pointer
            if known.type.kind == "struct" and by_value:
                found.add(here)
                visit(known.type.struct, here)
            elif known.type.kind in {"list", "map"} and not known.omitempty:
                found.add(here)

    visit(name, ())
    return frozenset(found)


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
    found: set[Path] = set()

    def visit(node: Object, path: Path) -> None:
        for element, below in node.items():
            if below:
                visit(below, (*path, element))
            elif element == SELF and not path[-1].startswith("k:"):
                found.add(path)
            else:
                found.add((*path, element))

    visit(tree, ())
    return found


def readable(path: Path) -> str:
    """Return the path as in conflict messages: `.spec.devices`, `.items[name="a"]`."""
    writers: dict[str, Callable[[str], str]] = {
        "f:": lambda text: f".{text}",
        "v:": lambda text: f"[={text}]",
        "k:": lambda text: "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(text).items()) + "]",
    }
    return "".join(writers[element[:2]](element[2:]) for element in path if element != SELF)
