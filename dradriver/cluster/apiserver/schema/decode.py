"""Converts a request's JSON to an object of its type, as Go's decoder does.

`parse` reads bytes and keeps the bytes of raw fields. `conform` checks types, drops and reports unknown fields,
and writes values as Go prints them: quantities and times in canonical form, without nulls and empty optional
values.
"""

import base64
import binascii
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from dradriver.cluster.apiserver.formats import gojson, quantity
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, copy
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, get_fields, get_zeros, keeps_bytes

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class TypeMismatchError(ValueError):
    """A value does not have its field's type. The message is the message of Go's decoder.

    Attributes:
        path: path of the field, including the indexes and keys that Go's message omits.
        owner: path of the struct, list or map that contains the value. It cannot be derived from `path`,
            because a key can contain dots.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path
        self.owner = ""


def parse(body: bytes, name: str | None) -> JsonValue:
    """Decode bytes; fields that keep their bytes become `msgspec.Raw` leaves.

    Args:
        body: JSON.
        name: name of the expected struct; None for an object without a schema.

    Raises:
        msgspec.DecodeError: the bytes are not JSON.
    """
    if name is None or not keeps_bytes(name):
        return msgspec.json.decode(body)
    msgspec.json.decode(body)  # also rejects broken JSON inside raw parts
    return _parse(body, SchemaType("struct", struct=name))


def _parse(body: bytes | msgspec.Raw, kind: SchemaType) -> JsonValue:
    if kind.kind == "raw":
        kept = bytes(body)
        return None if kept == b"null" else msgspec.Raw(kept)
    first = bytes(memoryview(body)[:1])
    if kind.kind == "struct" and keeps_bytes(kind.struct) and first.strip() in {b"{", b""}:
        fields = get_fields(kind.struct)
        return {
            key: _parse(value, fields[key].type) if key in fields else msgspec.json.decode(value)
            for key, value in _OBJECT.decode(body).items()
        }
    if kind.kind == "list" and kind.element is not None and first == b"[":
        return [_parse(item, kind.element) for item in _ARRAY.decode(body)]
    return msgspec.json.decode(body)


def parse_at(raw: msgspec.Raw, name: str, path: list[str]) -> JsonValue:
    """Decode one value as the field at `path` in the struct `name`; `path` has field names and list indexes."""
    kind: SchemaType | None = SchemaType("struct", struct=name)
    for part in path:
        if kind is None or kind.kind not in {"struct", "list", "map"}:
            kind = None
        elif kind.kind == "struct":
            known = get_fields(kind.struct).get(part)
            kind = known.type if known is not None else None
        else:
            kind = kind.element
    if kind is None:
        return msgspec.json.decode(raw)
    return compact_raw(_parse(raw, kind))


def thaw(value: JsonValue) -> JsonValue:
    """Return the value with decoded raw leaves, for strategic merge and apply. Other parts are shared."""
    return _replace_raw(value, msgspec.json.decode)


def compact_raw(value: JsonValue) -> JsonValue:
    """Return the value as answers contain it: raw leaves are compacted and escaped, other parts shared."""
    return _replace_raw(value, _compact)


def _compact(raw: msgspec.Raw) -> msgspec.Raw:
    compacted = msgspec.Raw(gojson.compact(bytes(raw)))
    return raw if compacted == raw else compacted


def _replace_raw(value: JsonValue, convert: Callable[[msgspec.Raw], JsonValue]) -> JsonValue:
    if isinstance(value, msgspec.Raw):
        return convert(value)
    if not isinstance(value, (dict, list)):
        return value
    changed: JsonValue = None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, _MAY_CONTAIN_RAW):
            converted = _replace_raw(item, convert)
            if converted is not item:
                changed = value.copy() if changed is None else changed
                changed[key] = converted
    return value if changed is None else changed


_MAY_CONTAIN_RAW = (dict, list, msgspec.Raw)


def conform(
    name: str,
    value: Object,
    *,
    complete: bool = False,
    mismatches: list[TypeMismatchError] | None = None,
    known: Object | None = None,
) -> tuple[Object, list[str]]:
    """Return the object with the fields of its type, and messages about unknown fields.

    Args:
        name: the struct.
        value: the decoded JSON.
        complete: whether to add the values that Go writes for unset fields. Go clients send these values, and
            other clients do not. If they are added, both kinds of clients create the same object.
        mismatches: receives an error for each value of a wrong type. Such a value is left out of the new
            object, or, if it is a list item, replaced by an empty item. None: the first error is raised, as in
            Go.
        known: an object of this type that was converted before. Members of the value that are the same Python
            objects are not converted again.

    Returns:
        The new object, and messages such as `unknown field "spec.foo"`.

    Raises:
        TypeMismatchError: a value has the wrong type, and `mismatches` is None.
    """
    conformer = _Conformer(complete=complete, mismatches=mismatches)
    return conformer.convert_struct(name, value, "", known), conformer.unknown


class _Conformer:
    def __init__(self, *, complete: bool, mismatches: list[TypeMismatchError] | None) -> None:
        self.complete = complete
        self.mismatches = mismatches
        self.unknown: list[str] = []
        # The current position, as in messages of Go's decoder: the structs around a value, and the fields on
        # the path to it.
        self.inside: list[str] = []
        self.fields: list[str] = []

    def convert_struct(self, name: str, value: Object, path: str, known_value: Object | None = None) -> Object:
        fields = get_fields(name)
        result: Object = copy(get_zeros(name)) if self.complete else {}
        self.inside.append(name)
        for key, item in value.items():
            known = fields.get(key)
            before = known_value.get(key) if known_value is not None else None
            if item is before and before is not None:
                result[key] = item
            elif known is None:
                self.unknown.append(f'unknown field "{path}{key}"')
            elif item is not None:
                self.fields.append(key)
                kept = self.convert_or_collect(known.type, item, f"{path}{key}", path.removesuffix("."), before)
                self.fields.pop()
                if kept is not _MISMATCH and not (known.omitempty and _is_empty(known, kept)):
                    result[key] = kept
        self.inside.pop()
        return result

    def convert_or_collect(
        self, kind: SchemaType, value: JsonValue, path: str, owner: str, known_value: JsonValue = None
    ) -> JsonValue:
        """Return the value; `_MISMATCH` if the value has a wrong type and mismatches are collected."""
        try:
            return self.convert(kind, value, path, known_value)
        except TypeMismatchError as error:
            if self.mismatches is None:
                raise
            error.owner = owner
            self.mismatches.append(error)
            return _MISMATCH

    def convert(self, kind: SchemaType, value: JsonValue, path: str, known_value: JsonValue) -> JsonValue:
        if kind.kind == "struct":
            if not isinstance(value, dict):
                raise self.mismatch_error(value, path, _format_go_type(kind))
            known = known_value if isinstance(known_value, dict) else None
            return self.convert_struct(kind.struct, value, path + ".", known)
        if kind.kind == "list" and kind.element is not None:
            return self.convert_list(kind.element, value, path)
        if kind.kind == "map" and kind.element is not None:
            if not isinstance(value, dict):
                raise self.mismatch_error(value, path, f"map[string]{_format_go_type(kind.element)}")
            items = {
                key: self.convert_or_collect(kind.element, item, f"{path}.{key}", path)
                for key, item in value.items()
                if item is not None
            }
            return {key: item for key, item in items.items() if item is not _MISMATCH}
        return self.convert_primitive(kind, value, path)

    def convert_list(self, element: SchemaType, value: JsonValue, path: str) -> list[JsonValue]:
        if not isinstance(value, list):
            raise self.mismatch_error(value, path, "[]" + _format_go_type(element))
        if element.kind == "string" and self.mismatches is None:
            if not all(isinstance(item, str) for item in value):
                raise self.mismatch_error(
                    next(item for item in value if not isinstance(item, str)), path, "string"
                )
            return list(value)
        # A null item decodes to Go's zero value.
        items = [
            self.convert_or_collect(element, {} if item is None else item, f"{path}[{index}]", path)
            for index, item in enumerate(value)
        ]
        return [({} if element.kind == "struct" else "") if item is _MISMATCH else item for item in items]

    def convert_primitive(self, kind: SchemaType, value: JsonValue, path: str) -> JsonValue:
        accepted = _PYTHON_TYPES.get(kind.kind)
        if accepted is not None:
            if not isinstance(value, accepted) or (isinstance(value, bool) and kind.kind != "bool"):
                raise self.mismatch_error(value, path, kind.kind)
            if isinstance(value, int) and not _fits(value, _BITS.get(kind.kind)):
                raise self.mismatch_error(value, path, kind.kind)
            return value
        convert = _CONVERTERS[kind.kind]
        try:
            return convert(value)
        except ValueError as error:
            raise TypeMismatchError(str(error), path) from error

    def mismatch_error(self, value: JsonValue, path: str, wanted: str) -> TypeMismatchError:
        field = ".".join((self.inside[-1].rpartition(".")[2], *self.fields))
        message = (
            f"json: cannot unmarshal {_format_go_name(value)} into Go struct field {field} of type {wanted}"
        )
        return TypeMismatchError(message, path)


_MISMATCH: JsonValue = msgspec.Raw()
"""Placeholder for a value of a wrong type."""


def _is_empty(known: Field, value: JsonValue) -> bool:
    # Go's omitempty leaves out nil pointers (null, which were left out before), zero scalars, and empty lists
    # and maps, but never structs.
    if known.type.kind == "struct" or known.type.pointer:
        return False
    if known.type.kind in {"raw", "any", "quantity", "intorstring"}:
        return False
    return not value


def _format_go_type(kind: SchemaType) -> str:
    if kind.kind == "struct":
        return f"v1.{kind.struct.rpartition('.')[2]}"
    if kind.kind == "list" and kind.element is not None:
        return f"[]{_format_go_type(kind.element)}"
    return kind.kind


def _fits(value: int, bits: int | None) -> bool:
    return bits is None or -(1 << bits - 1) <= value < 1 << bits - 1


def _format_go_name(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) and abs(value) >= 1 << 31:
        return f"number {value}"
    return {str: "string", int: "number", float: "number", list: "array"}.get(type(value), "object")


def _convert_quantity(value: JsonValue) -> str:
    if isinstance(value, str):
        return quantity.canonicalize(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return quantity.canonicalize(str(value))
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


def _convert_time(value: JsonValue) -> str:
    return parse_time(value).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _convert_microtime(value: JsonValue) -> str:
    return parse_time(value).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _convert_bytes(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004 -- one kind of error for all values
            f"json: cannot unmarshal {_format_go_name(value)} into Go value of type []uint8"
        )
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("illegal base64 data at input byte 0") from error
    return value


def _convert_int_or_string(value: JsonValue) -> JsonValue:
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    raise ValueError(
        f"json: cannot unmarshal {_format_go_name(value)} into Go value of type intstr.IntOrString"
    )


def _convert_raw(value: JsonValue) -> msgspec.Raw:
    # The value consists of the bytes as sent, or is a generic value that is written as Go marshals it.
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(gojson.encode(value).encode())


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "bool": bool, "int32": int, "int64": int, "float": (int, float), "byte": int,
}  # fmt: skip
_BITS = {"int32": 32, "int64": 64}
_CONVERTERS: dict[str, Callable[[JsonValue], JsonValue]] = {
    "quantity": _convert_quantity, "time": _convert_time, "microtime": _convert_microtime,
    "bytes": _convert_bytes, "raw": _convert_raw, "intorstring": _convert_int_or_string,
    "any": lambda value: value,
}  # fmt: skip
