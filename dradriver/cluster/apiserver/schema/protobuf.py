"""Reads Kubernetes' protobuf form of an object into the same JSON tree as its JSON form.

Typed Go clients (kubectl's `create namespace`, the kubelet, kube-scheduler) send protobuf. The server answers
with JSON, which these clients accept. Source: apimachinery `pkg/runtime/serializer/protobuf` (the envelope),
the generated `.proto` files.
"""

import base64
import struct as binary
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.schema.types import SchemaType, get_fields

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are not the protobuf form of a Kubernetes object."""


def unwrap(body: bytes) -> tuple[str, str, bytes]:
    """Return API version, kind and message of an enveloped object.

    Raises:
        ProtobufError: the bytes have no such envelope.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    parts = {number: value for number, value in _read_fields(body[len(_MAGIC) :]) if isinstance(value, bytes)}
    meta = {number: value for number, value in _read_fields(parts.get(1, b"")) if isinstance(value, bytes)}
    return meta.get(1, b"").decode(), meta.get(2, b"").decode(), parts.get(2, b"")


def can_read(name: str) -> bool:
    """Return whether the protobuf numbers of a struct are known."""
    return any(each.number for each in get_fields(name).values())


def decode(name: str, body: bytes) -> Object:
    """Return the object of a message.

    Args:
        name: name of the object's struct.
        body: the message.

    Raises:
        ProtobufError: the bytes are not a message of this struct.
    """
    return _decode(name, body, ())


def _decode(name: str, body: bytes, within: tuple[int, ...]) -> Object:
    """Return the fields of a message. `within` is the path of the embedded message that this call reads."""
    fields = {each.number: (key, each.type) for key, each in get_fields(name).items()}
    found: Object = {}
    for number, value in _read_fields(body):
        at = (*within, number)
        known = fields.get(at)
        if known is not None:
            _set(found, *known, value)
        elif any(each[: len(at)] == at for each in fields):
            found |= _decode(name, _to_message(value), at)
    return found


def _set(found: Object, key: str, kind: SchemaType, value: int | bytes) -> None:
    if kind.kind == "list" and kind.element is not None:
        found.setdefault(key, []).append(_convert(kind.element, value))
    elif kind.kind == "map" and kind.element is not None:
        entry = dict(_read_fields(_to_message(value)))
        name = _to_message(entry.get(1, b"")).decode()
        found.setdefault(key, {})[name] = _convert(kind.element, entry.get(2, _zero_value(kind.element)))
    else:
        decoded = _convert(kind, value)
        if decoded is not None:
            found[key] = decoded


def _read_fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _read_varint(body, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _read_varint(body, at)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + size > len(body):
            raise ProtobufError("unexpected EOF")
        yield number, body[at : at + size]
        at += size


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(body) and shift < 70:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ProtobufError("unexpected EOF")


def _to_message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType = 0 for a message")
    return value


def _to_signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("proto: wrong wireType = 2 for a number")
    return value - (1 << 64) if value >= 1 << 63 else value


def _zero_value(kind: SchemaType) -> int | bytes:
    return 0 if kind.kind in {"bool", "int32", "int64", "byte"} else b""


def _convert(kind: SchemaType, value: int | bytes) -> JsonValue:
    if kind.kind == "bool":
        return bool(value)
    if kind.kind in {"int32", "int64", "byte"}:
        return _to_signed(value)
    body = _to_message(value)
    if kind.kind == "struct":
        return decode(kind.struct, body)
    if kind.kind == "string":
        return body.decode()
    if kind.kind == "bytes":
        return base64.b64encode(body).decode()
    if kind.kind == "float":
        return binary.unpack("<d", body)[0]
    return _convert_special(kind.kind, dict(_read_fields(body)))


def _convert_special(kind: str, parts: dict[int, int | bytes]) -> JsonValue:
    if kind in {"time", "microtime"}:
        if not parts:
            return None
        micros = _to_signed(parts.get(2, 0)) // 1000
        moment = _EPOCH + timedelta(seconds=_to_signed(parts.get(1, 0)), microseconds=micros)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if kind == "quantity":
        return _to_message(parts.get(1, b"0")).decode()
    if kind == "intorstring":
        return _to_message(parts.get(3, b"")).decode() if parts.get(1) else _to_signed(parts.get(2, 0))
    raw = _to_message(parts.get(1, b""))
    if not raw:
        return None
    return msgspec.Raw(raw) if kind == "raw" else msgspec.json.decode(raw)
