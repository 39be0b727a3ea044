"""The types of `kubernetes.json` and `apiextensions.json`, read on first use.

A struct is a map from JSON name to `Field`. A field's type is a small tree of primitives, lists, maps and
structs. Marks define how server-side apply and strategic merge treat lists.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

from dradriver.cluster.apiserver.formats.values import JsonValue

Kind: TypeAlias = Literal[
    "string", "bool", "int32", "int64", "float", "bytes", "byte", "time", "microtime", "any", "quantity",
    "intorstring", "raw", "list", "map", "struct",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SchemaType:
    """One type.

    Attributes:
        kind: a primitive, `list`, `map` or `struct`.
        pointer: whether the Go type is a pointer. `omitempty` keeps a zero value behind a pointer, and drops
            any other zero value.
        element: the type of a list's or map's elements.
        struct: the name of the struct, `package.Name`.
        members: the fields of a struct without a name, as custom kinds have them; None: `struct` names the
            struct.
    """

    kind: Kind
    pointer: bool = False
    element: "SchemaType | None" = None
    struct: str = ""
    members: "Mapping[str, Field] | None" = None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Attributes:
        type: type of the field.
        omitempty: whether a zero value of the field is left out.
        list_type: `atomic`, `map`, `set` or ""; a struct or map can also be `atomic`.
        keys: the fields that identify an item of a `map` list (server-side apply).
        merge_key: the field that identifies an item in a strategic merge patch; "" for a merged
            list of scalars, None for a list that is replaced.
        number: number of the field in the protobuf form; empty if it has none; two numbers if the field is in
            an embedded message.
    """

    type: SchemaType
    omitempty: bool
    list_type: str = ""
    keys: tuple[str, ...] = ()
    merge_key: str | None = None
    number: tuple[int, ...] = ()


def _parse_type(expression: str) -> SchemaType:
    pointer = expression.startswith("*")
    expression = expression.removeprefix("*")
    if expression.startswith("[]"):
        return SchemaType("list", pointer, _parse_type(expression[2:]))
    if expression.startswith("{}"):
        return SchemaType("map", pointer, _parse_type(expression[2:]))
    if "." in expression:
        return SchemaType("struct", pointer, None, expression)
    return SchemaType(expression, pointer)  # type: ignore[arg-type]  # the file holds only the kinds above


def _parse_field(text: str) -> Field:
    expression, *marks = text.split(" ")
    values = dict(mark.split("=", 1) for mark in marks if "=" in mark)
    keys = tuple(values["keys"].split(",")) if "keys" in values else ()
    number = next((tuple(map(int, mark[1:].split("."))) for mark in marks if mark.startswith("#")), ())
    return Field(
        _parse_type(expression), "o" in marks, values.get("list", ""), keys, values.get("merge"), number
    )


# Fields of KEPs that Kubernetes 1.37 does not have. They are served if their gate is on, and dropped otherwise.
_KEP_FIELDS = {
    # KEP-5963, "Design Details": the groups that were active when the device was allocated.
    "resource.DeviceRequestAllocationResult": {"compatibilityGroups": "{}[]string o"}
}


_FILES = ("kubernetes.json", "apiextensions.json")


@cache
def _load_document() -> dict[str, dict[str, str]]:
    folder = resources.files(__package__)
    document: dict[str, dict[str, str]] = {}
    for name in _FILES:
        document |= json.loads(folder.joinpath(name).read_text(encoding="utf-8"))
    return document


@cache
def get_fields(name: str) -> Mapping[str, Field]:
    """Return the fields of a struct such as `core.Pod`, by JSON name.

    Raises:
        KeyError: the generated file does not contain the struct.
    """
    fields = {**_load_document()[name], **_KEP_FIELDS.get(name, {})}
    return {key: _parse_field(text) for key, text in fields.items()}


def get_members(kind: SchemaType) -> Mapping[str, Field]:
    """Return the fields of a type, by JSON name; empty if it is not a struct."""
    if kind.members is not None:
        return kind.members
    return get_fields(kind.struct) if kind.kind == "struct" else {}


def to_type(kind: str | SchemaType | None) -> SchemaType | None:
    """Return the type of a struct that is given by its name. A type and None are returned unchanged."""
    return SchemaType("struct", struct=kind) if isinstance(kind, str) else kind


@cache
def get_zeros(name: str) -> dict[str, JsonValue]:
    """Return the values that Go writes for unset fields: empty structs, scalars without `omitempty`.

    All callers get the same result object. Copy it before changing it.
    """
    found = {key: _zero_value(each) for key, each in get_fields(name).items()}
    return {key: value for key, value in found.items() if value is not None}


def _zero_value(each: Field) -> JsonValue:
    if each.type.pointer:
        return None
    if each.type.kind == "struct":
        return get_zeros(each.type.struct)
    return None if each.omitempty else _ZEROS.get(each.type.kind)


_ZEROS: dict[str, JsonValue] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float": 0, "byte": 0, "quantity": "0",
}  # fmt: skip


@cache
def keeps_bytes(name: str) -> bool:
    """Return whether a struct has, at any depth, a field that keeps its bytes as sent (Go's `RawExtension`)."""
    return _reaches_raw(name, set())


def _reaches_raw(name: str, seen: set[str]) -> bool:
    if name in seen:
        return False
    seen.add(name)
    return any(_type_reaches_raw(each.type, seen) for each in get_fields(name).values())


def _type_reaches_raw(each: SchemaType, seen: set[str]) -> bool:
    if each.kind == "struct":
        return _reaches_raw(each.struct, seen)
    if each.element is not None:
        return _type_reaches_raw(each.element, seen)
    return each.kind == "raw"
