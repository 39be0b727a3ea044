"""Converts between `resource.k8s.io/v1`, which all other code uses, and older versions.

v1beta2 has the fields of v1. In v1beta1, the fields of a device are one level deeper, in `basic`, and the
fields of an exact request are one level higher, beside its name. Only the parts that must be moved are decoded.
All other bytes stay unchanged, because the API server compares opaque parameters byte for byte.

Source: `pkg/apis/resource/v1beta1/conversion.go` of Kubernetes 1.37.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

__all__ = ["VERSIONS", "best_version", "older_from_v1", "v1_from_older"]

GROUP: Final = "resource.k8s.io"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""The supported versions, the newest first."""

_Fields: TypeAlias = dict[str, msgspec.Raw]
_Change: TypeAlias = Callable[[bytes], bytes]

_REQUEST_OUTSIDE_EXACTLY: Final = ("name", "firstAvailable")
_encoder: Final = msgspec.json.Encoder(order="sorted")
_fields: Final = msgspec.json.Decoder(_Fields)
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])


def best_version(served: Sequence[str]) -> str | None:
    """Return the first version of `VERSIONS` that a server serves; None if it serves none of them."""
    return next((version for version in VERSIONS if version in served), None)


def v1_from_older(kind: str, data: bytes, version: str) -> bytes:
    """Convert an object of `version` to v1."""
    return _convert(kind, data, version, "v1", _device_to_v1, _request_to_v1)


def older_from_v1(kind: str, data: bytes, version: str) -> bytes:
    """Convert a v1 object to `version`."""
    return _convert(kind, data, version, version, _device_to_v1beta1, _request_to_v1beta1)


def _convert(kind: str, data: bytes, version: str, target: str, device: _Change, request: _Change) -> bytes:
    fields = _fields.decode(data)
    if "apiVersion" in fields:
        fields["apiVersion"] = msgspec.Raw(_encoder.encode(f"{GROUP}/{target}"))
    data = _encoder.encode(fields)
    if version != "v1beta1" or kind not in _LIST_PATHS:
        return data
    return _change_list(data, _LIST_PATHS[kind], device if kind == "ResourceSlice" else request)


_LIST_PATHS: Final = {
    "ResourceSlice": ("spec", "devices"),
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}


def _change_list(data: bytes, path: Sequence[str], change: _Change) -> bytes:
    """Return `data` with `change` applied to each item of the list at `path`, if the list exists."""
    if not path:
        return _encoder.encode([msgspec.Raw(change(bytes(item))) for item in _items.decode(data)])
    fields = _fields.decode(data)
    inner = fields.get(path[0])
    if inner is None or bytes(inner) == b"null":
        return data
    fields[path[0]] = msgspec.Raw(_change_list(bytes(inner), path[1:], change))
    return _encoder.encode(fields)


def _device_to_v1(data: bytes) -> bytes:
    fields = _fields.decode(data)
    basic = fields.pop("basic", None)
    return _encoder.encode(fields | (_fields.decode(basic) if basic else {}))


def _device_to_v1beta1(data: bytes) -> bytes:
    fields = _fields.decode(data)
    name = {"name": fields.pop("name")} if "name" in fields else {}
    return _encoder.encode(name | {"basic": msgspec.Raw(_encoder.encode(fields))})


def _request_to_v1(data: bytes) -> bytes:
    fields = _fields.decode(data)
    outside = {key: fields.pop(key) for key in _REQUEST_OUTSIDE_EXACTLY if key in fields}
    exactly = {"exactly": msgspec.Raw(_encoder.encode(fields))} if fields else {}
    return _encoder.encode(outside | exactly)


def _request_to_v1beta1(data: bytes) -> bytes:
    fields = _fields.decode(data)
    exactly = fields.pop("exactly", None)
    return _encoder.encode(fields | (_fields.decode(exactly) if exactly else {}))
