"""The types of `kubernetes.json` and `apiextensions.json`, read on first use.

A struct is a map from JSON name to `Field`. A field's type is a small tree of primitives, lists, maps and
structs. Marks define how server-side apply and strategic merge treat lists.
"""

import json
from dataclasses import dataclass, field
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
        pointer: Go keeps a zero value behind a pointer; without, `omitempty` drops it.
        element: the type of a list's or map's elements.
        struct: the name of the struct, `package.Name`.
    """

    kind: Kind
    pointer: bool = False
    element: "SchemaType | None" = None
    struct: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Attributes:
        type: its type.
        omitempty: whether a zero value is left out.
        list_type: `atomic`, `map`, `set` or nothing; `atomic` also for structs and maps.
        keys: the fields that identify an item of a `map` list (server-side apply).
        merge_key: the field that identifies an item in a strategic merge patch; "" for a merged
            list of scalars, None for a list that is replaced.
        number: its number in the protobuf form, empty for none; two numbers when it lies in an
            embedded message.
    """

    type: SchemaType
    omitempty: bool
    list_type: str = ""
    keys: tuple[str, ...] = ()
    merge_key: str | None = None
    number: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Struct:
    """A named Go struct: its fields by JSON name, and whether any field below it keeps bytes as sent."""

    name: str
    fields: dict[str, Field] = field(default_factory=dict)


def _type(expression: str) -> SchemaType:
    pointer = expression.startswith("*")
    expression = expression.removeprefix("*")
    if expression.startswith("[]"):
        return SchemaType("list", pointer, _type(expression[2:]))
    if expression.startswith("{}"):
        return SchemaType("map", pointer, _type(expression[2:]))
    if "." in expression:
        return SchemaType("struct", pointer, None, expression)
    return SchemaType(expression, pointer)  # type: ignore[arg-type]  # the file holds only the kinds above


def _field(text: str) -> Field:
    expression, *marks = text.split(" ")
    values = dict(mark.split("=", 1) for mark in marks if "=" in mark)
    keys = tuple(values["keys"].split(",")) if "keys" in values else ()
    number = next((tuple(map(int, mark[1:].split("."))) for mark in marks if mark.startswith("#")), ())
    return Field(_type(expression), "o" in marks, values.get("list", ""), keys, values.get("merge"), number)


# Fields of the KEPs that Kubernetes 1.37 does not have, served when their gate is on (dropped otherwise).
_KEP_FIELDS = {
    # KEP-5963, "Design Details": the groups in force when the device was allocated.
    "resource.DeviceRequestAllocationResult": {"compatibilityGroups": "{}[]string o"},
}


_FILES = ("kubernetes.json", "apiextensions.json")


@cache
def _document() -> dict[str, dict[str, str]]:
    folder = resources.files(__package__)
    document: dict[str, dict[str, str]] = {}
    for name in _FILES:
        document |= json.loads(folder.joinpath(name).read_text(encoding="utf-8"))
    return document


@cache
def struct(name: str) -> Struct:
    """Return the struct of a name such as `core.Pod`.

    Raises:
        KeyError: no such struct in the generated file.
    """
    fields = {**_document()[name], **_KEP_FIELDS.get(name, {})}
    return Struct(name, {key: _field(text) for key, text in fields.items()})


@cache
def zeros(name: str) -> dict[str, JsonValue]:
    """Return the values that Go writes for unset fields: empty structs, scalars without `omitempty`.

    The result is shared: copy it before changing it.
    """
    found = {key: _zero(each) for key, each in struct(name).fields.items()}
    return {key: value for key, value in found.items() if value is not None}


def _zero(each: Field) -> JsonValue:
    if each.type.pointer:
        return None
    if each.type.kind == "struct":
        return zeros(each.type.struct)
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
    return any(_type_reaches_raw(each.type, seen) for each in struct(name).fields.values())


def _type_reaches_raw(each: SchemaType, seen: set[str]) -> bool:
    if each.kind == "struct":
        return _reaches_raw(each.struct, seen)
    if each.element is not None:
        return _type_reaches_raw(each.element, seen)
    return each.kind == "raw"
