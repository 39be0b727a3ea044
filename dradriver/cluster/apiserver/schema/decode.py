"""Converts a request's JSON to an object of its type, as Go's decoder does.

`parse` reads bytes and keeps the bytes of raw fields. `conform` checks types, drops and reports the fields that
the type does not know, and writes values as Go prints them: quantities and times in canonical form, without
nulls and empty optional values.
"""

import base64
import binascii
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from dradriver.cluster.apiserver.formats import gojson, quantity
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, copy
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, keeps_bytes, struct, zeros

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class TypeMismatchError(ValueError):
    """A value does not have its field's type. The message is that of Go's decoder.

    Attributes:
        place: the field, with the indexes and keys that Go's message omits.
    """

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


def parse(body: bytes, name: str | None) -> JsonValue:
    """Decode bytes; fields that keep their bytes become `msgspec.Raw` leaves.

    Args:
        body: JSON.
        name: the struct that the bytes should be, or None for an object without a schema.

    Raises:
        msgspec.DecodeError: not JSON.
    """
    if name is None or not keeps_bytes(name):
        return msgspec.json.decode(body)
    msgspec.json.decode(body)  # refuses broken JSON inside raw parts too
    return _parse(body, SchemaType("struct", struct=name))


def _parse(body: bytes | msgspec.Raw, kind: SchemaType) -> JsonValue:
    if kind.kind == "raw":
        kept = bytes(body)
        return None if kept == b"null" else msgspec.Raw(kept)
    first = bytes(memoryview(body)[:1])
    if kind.kind == "struct" and keeps_bytes(kind.struct) and first.strip() in {b"{", b""}:
        fields = struct(kind.struct).fields
        return {
            key: _parse(value, fields[key].type) if key in fields else msgspec.json.decode(value)
            for key, value in _OBJECT.decode(body).items()
        }
    if kind.kind == "list" and kind.element is not None and first == b"[":
        return [_parse(item, kind.element) for item in _ARRAY.decode(body)]
    return msgspec.json.decode(body)


def parse_at(raw: msgspec.Raw, name: str, path: list[str]) -> JsonValue:
    """Decode one value with the type of the field at a path of names and indexes in a struct."""
    kind: SchemaType | None = SchemaType("struct", struct=name)
    for part in path:
        if kind is None or kind.kind not in {"struct", "list", "map"}:
            kind = None
        elif kind.kind == "struct":
            known = struct(kind.struct).fields.get(part)
            kind = known.type if known is not None else None
        else:
            kind = kind.element
    if kind is None:
        return msgspec.json.decode(raw)
    return wire(_parse(raw, kind))


def thaw(value: JsonValue) -> JsonValue:
    """Return a generic copy with decoded raw leaves, for strategic merge and apply."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


def wire(value: JsonValue) -> JsonValue:
    """Return the value as it is answered: raw leaves are compacted and escaped, unchanged parts are shared."""
    if isinstance(value, msgspec.Raw):
        return msgspec.Raw(gojson.compact(bytes(value)))
    if isinstance(value, dict):
        return {key: wire(item) for key, item in value.items()}
    if isinstance(value, list):
        return [wire(item) for item in value]
    return value


def conform(
    name: str,
    value: Object,
    *,
    complete: bool = False,
    mismatches: list[TypeMismatchError] | None = None,
) -> tuple[Object, list[str]]:
    """Return the object with the fields of its type, and messages about the fields that the type does not know.

    Args:
        name: the struct.
        value: the decoded JSON.
        complete: also write the values that Go writes for unset fields. Go clients send those, others do not;
            with them, both mean the same object.
        mismatches: receives every value of a wrong type, which the new object then lacks (an item of a list
            becomes an empty one); None raises the first, as Go does.

    Returns:
        a new object, and messages such as `unknown field "spec.foo"`.

    Raises:
        TypeMismatchError: a value has the wrong type, and `mismatches` is None.
    """
    conformer = _Conformer(complete=complete, mismatches=mismatches)
    return conformer.object(name, value, ""), conformer.unknown


class _Conformer:
    def __init__(self, *, complete: bool, mismatches: list[TypeMismatchError] | None) -> None:
        self.complete = complete
        self.mismatches = mismatches
        self.unknown: list[str] = []
        # The current place, as in messages of Go's decoder: the structs around a value, and the fields down to
        # it.
        self.inside: list[str] = []
        self.fields: list[str] = []

    def object(self, name: str, value: Object, path: str) -> Object:
        fields = struct(name).fields
        result: Object = copy(zeros(name)) if self.complete else {}
        self.inside.append(name)
        for key, item in value.items():
            known = fields.get(key)
            if known is None:
                self.unknown.append(f'unknown field "{path}{key}"')
            elif item is not None:
                self.fields.append(key)
                kept = self.kept(known.type, item, f"{path}{key}")
                self.fields.pop()
                if kept is not _WRONG and not (known.omitempty and _empty(known, kept)):
                    result[key] = kept
        self.inside.pop()
        return result

    def kept(self, kind: SchemaType, value: JsonValue, path: str) -> JsonValue:
        """Return the value; `_WRONG` if it has a wrong type and mismatches are collected."""
        try:
            return self.value(kind, value, path)
        except TypeMismatchError as error:
            if self.mismatches is None:
                raise
            self.mismatches.append(error)
            return _WRONG

    def value(self, kind: SchemaType, value: JsonValue, path: str) -> JsonValue:
        if kind.kind == "struct":
            if not isinstance(value, dict):
                raise self.mismatch(value, path, _go_type(kind))
            return self.object(kind.struct, value, path + ".")
        if kind.kind == "list" and kind.element is not None:
            return self.list(kind.element, value, path)
        if kind.kind == "map" and kind.element is not None:
            if not isinstance(value, dict):
                raise self.mismatch(value, path, f"map[string]{_go_type(kind.element)}")
            items = {
                key: self.kept(kind.element, item, f"{path}.{key}")
                for key, item in value.items()
                if item is not None
            }
            return {key: item for key, item in items.items() if item is not _WRONG}
        return self.primitive(kind, value, path)

    def list(self, element: SchemaType, value: JsonValue, path: str) -> list[JsonValue]:
        if not isinstance(value, list):
            raise self.mismatch(value, path, "[]" + _go_type(element))
        if element.kind == "string" and self.mismatches is None:
            if not all(isinstance(item, str) for item in value):
                raise self.mismatch(next(item for item in value if not isinstance(item, str)), path, "string")
            return list(value)
        # A null item decodes to Go's zero value.
        items = [
            self.kept(element, {} if item is None else item, f"{path}[{index}]")
            for index, item in enumerate(value)
        ]
        return [({} if element.kind == "struct" else "") if item is _WRONG else item for item in items]

    def primitive(self, kind: SchemaType, value: JsonValue, path: str) -> JsonValue:
        accepted = _ACCEPTED.get(kind.kind)
        if accepted is not None:
            if not isinstance(value, accepted) or (isinstance(value, bool) and kind.kind != "bool"):
                raise self.mismatch(value, path, kind.kind)
            if isinstance(value, int) and not _fits(value, _BITS.get(kind.kind)):
                raise self.mismatch(value, path, kind.kind)
            return value
        convert = _CONVERTED[kind.kind]
        try:
            return convert(value)
        except ValueError as error:
            raise TypeMismatchError(str(error), path) from error

    def mismatch(self, value: JsonValue, path: str, wanted: str) -> TypeMismatchError:
        field = ".".join((self.inside[-1].rpartition(".")[2], *self.fields))
        message = f"json: cannot unmarshal {_go_name(value)} into Go struct field {field} of type {wanted}"
        return TypeMismatchError(message, path)


_WRONG: JsonValue = msgspec.Raw()
"""Placeholder for a value of a wrong type."""


def _empty(known: Field, value: JsonValue) -> bool:
    # Go's omitempty: nil pointers (null, left out before), zero scalars, empty lists and maps; never structs.
    if known.type.kind == "struct" or known.type.pointer:
        return False
    if known.type.kind in {"raw", "any", "quantity", "intorstring"}:
        return False
    return not value


def _go_type(kind: SchemaType) -> str:
    if kind.kind == "struct":
        return f"v1.{kind.struct.rpartition('.')[2]}"
    if kind.kind == "list" and kind.element is not None:
        return f"[]{_go_type(kind.element)}"
    return kind.kind


def _fits(value: int, bits: int | None) -> bool:
    return bits is None or -(1 << bits - 1) <= value < 1 << bits - 1


def _go_name(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) and abs(value) >= 1 << 31:
        return f"number {value}"
    return {str: "string", int: "number", float: "number", list: "array"}.get(type(value), "object")


def _quantity(value: JsonValue) -> str:
    if isinstance(value, str):
        return quantity.canonical(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return quantity.canonical(str(value))
    raise ValueError(quantity.ERROR)


def parse_time(value: JsonValue) -> datetime:
    """Return the time of an RFC 3339 text.

    Raises:
        ValueError: the text is not a time; the message is Go's.
    """
    if isinstance(value, str) and "T" in value:
        with contextlib.suppress(ValueError, OverflowError):
            parsed = datetime.fromisoformat(value)
            if parsed.tzinfo is not None:
                return parsed.astimezone(UTC)
    raise ValueError(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}"')


def _time(value: JsonValue) -> str:
    return parse_time(value).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _microtime(value: JsonValue) -> str:
    return parse_time(value).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _bytes(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004 -- one kind of error for all values
            f"json: cannot unmarshal {_go_name(value)} into Go value of type []uint8"
        )
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("illegal base64 data at input byte 0") from error
    return value


def _int_or_string(value: JsonValue) -> JsonValue:
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    raise ValueError(f"json: cannot unmarshal {_go_name(value)} into Go value of type intstr.IntOrString")


def _raw(value: JsonValue) -> msgspec.Raw:
    # The bytes as sent, or a generic value as Go marshals it.
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(gojson.encode(value).encode())


_ACCEPTED: dict[str, type | tuple[type, ...]] = {
    "string": str, "bool": bool, "int32": int, "int64": int, "float": (int, float), "byte": int,
}  # fmt: skip
_BITS = {"int32": 32, "int64": 64}
_CONVERTED: dict[str, Callable[[JsonValue], JsonValue]] = {
    "quantity": _quantity, "time": _time, "microtime": _microtime, "bytes": _bytes, "raw": _raw,
    "intorstring": _int_or_string, "any": lambda value: value,
}  # fmt: skip
