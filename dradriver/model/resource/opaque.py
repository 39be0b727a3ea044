"""Finds the opaque configuration that users write in objects of resource.k8s.io.

The configuration has the same path in v1, v1beta2 and v1beta1, so an object of any version is read without
conversion. The bytes of the parameters stay unchanged.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.resource.claim import OpaqueConfig

__all__ = ["OPAQUE_KINDS", "opaque_configs"]

_CONFIG_PATHS: Final = {
    "DeviceClass": ("spec", "config"),
    "ResourceClaim": ("spec", "devices", "config"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "config"),
}
OPAQUE_KINDS: Final = tuple(_CONFIG_PATHS)
"""The kinds that have opaque configuration in `spec`."""


T = TypeVar("T")


class _Entry(Value, frozen=True):
    opaque: OpaqueConfig | None = None


def opaque_configs(kind: str, data: bytes) -> Iterator[tuple[str, OpaqueConfig]]:
    """Yield each configuration with the path of its parameters (`spec.config[0].opaque.parameters`).

    Args:
        kind: the kind of the object. Only the kinds in `OPAQUE_KINDS` have configuration.
        data: the object as JSON text.

    Raises:
        InvalidObjectError: the object does not have the fields of its kind. The problem names the field.
    """
    if kind not in _CONFIG_PATHS:
        return
    path = ""
    for name in _CONFIG_PATHS[kind]:
        fields = _read(dict[str, msgspec.Raw], data, path)
        path = f"{path}.{name}" if path else name
        data = bytes(fields.get(name, b"null"))
        if data == b"null":
            return
    for index, entry in enumerate(_read(list[_Entry], data, path)):
        if entry.opaque is not None:
            yield f"{path}[{index}].opaque.parameters", entry.opaque


def _read(wanted: type[T], data: bytes, path: str) -> T:
    try:
        return decode(wanted, data)
    except InvalidObjectError as error:
        raise InvalidObjectError("object", [problem.under(path) for problem in error.problems]) from None
