"""Where the objects of resource.k8s.io carry opaque configuration that users write.

The place is the same in v1, v1beta2 and v1beta1, so an object is read as it is, whatever its version. The
parameters stay the bytes that they are.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.resource.claim import OpaqueConfig

__all__ = ["OPAQUE_KINDS", "opaque_configs"]

_PLACES: Final = {
    "DeviceClass": ("spec", "config"),
    "ResourceClaim": ("spec", "devices", "config"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "config"),
}
OPAQUE_KINDS: Final = tuple(_PLACES)
"""The kinds whose specs carry opaque configuration."""


T = TypeVar("T")


class _Entry(Value, frozen=True):
    opaque: OpaqueConfig | None = None


def opaque_configs(kind: str, data: bytes) -> Iterator[tuple[str, OpaqueConfig]]:
    """Field path of the parameters (`spec.config[0].opaque.parameters`) and configuration, entry by entry.

    Args:
        kind: the object's kind; others than `OPAQUE_KINDS` carry none.
        data: the object as JSON text.

    Raises:
        InvalidObjectError: the object is not shaped like one of its kind; the problem names the field.
    """
    if kind not in _PLACES:
        return
    path = ""
    for name in _PLACES[kind]:
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
