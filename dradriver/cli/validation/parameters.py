"""Opaque parameters that are not written as the API server compares them.

The server compares parameters byte for byte with what Go's encoder would write. Where a client has sent them
otherwise, every later write of the object fails ("field is immutable"). kubectl reads a file and writes it
anew, so that nothing of its form is left; that goes for YAML, which has to be converted anyhow, and for JSON
that is laid out for people. What may be sent as it is, by a program or `kubectl create --raw`, is JSON on one
line.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from dradriver.cli.files import Document
from dradriver.errors import Problem
from dradriver.model.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.codec import canonical, decode
from dradriver.model.deviceclass import DeviceClass

__all__ = ["parameter_warnings"]

_Entry = tuple[str, bytes]


def parameter_warnings(document: Document, v1: bytes) -> Iterator[Problem]:
    """A warning for each opaque parameter of the object that is not canonical JSON."""
    if not document.is_json or b"\n" in document.raw.strip():
        return
    for path, raw in _PLACES.get(document.kind, _none)(v1):
        reasons = list(_reasons(raw))
        if reasons:
            rule = (
                f"not the JSON that Go writes ({', '.join(reasons)}): kubectl rewrites it, but a client that "
                "sends it as it is makes later writes fail with 'field is immutable'"
            )
            yield Problem(path, rule)


def _reasons(raw: bytes) -> Iterator[str]:
    wanted = canonical(msgspec.json.decode(raw))
    if raw == wanted:
        return
    loose = json.loads(raw, parse_float=_Literal, parse_int=_Literal)
    if any(list(found) != sorted(found) for found in _objects(loose)):
        yield "keys are not sorted"
    if any(number != _as_go(number) for number in _numbers(loose)):
        yield "numbers such as 1.0 or 1e3"
    if any(sign in raw for sign in (b"<", b">", b"&")):
        yield "'<', '>' or '&' not escaped"
    if raw != _without_spaces(raw):
        yield "spaces between the values"


class _Literal(str):
    """A number as it is written."""

    __slots__ = ()


def _objects(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _numbers(value: object) -> Iterator[_Literal]:
    if isinstance(value, _Literal):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def _as_go(number: str) -> str:
    return canonical(json.loads(number)).decode()


def _without_spaces(raw: bytes) -> bytes:
    return msgspec.json.format(raw, indent=-1)


def _of_class(v1: bytes) -> Iterator[_Entry]:
    for index, entry in enumerate(decode(DeviceClass, v1).spec.config):
        if entry.opaque is not None:
            yield f"spec.config[{index}].opaque.parameters", bytes(entry.opaque.parameters)


def _of_claim(v1: bytes) -> Iterator[_Entry]:
    claim = decode(ResourceClaim, v1)
    for index, entry in enumerate(claim.spec.devices.config):
        if entry.opaque is not None:
            yield f"spec.devices.config[{index}].opaque.parameters", bytes(entry.opaque.parameters)
    for index, given in enumerate(claim.allocation.devices.config if claim.allocation else ()):
        if given.opaque is not None:
            path = f"status.allocation.devices.config[{index}].opaque.parameters"
            yield path, bytes(given.opaque.parameters)


def _of_template(v1: bytes) -> Iterator[_Entry]:
    for index, entry in enumerate(decode(ResourceClaimTemplate, v1).spec.spec.devices.config):
        if entry.opaque is not None:
            yield f"spec.spec.devices.config[{index}].opaque.parameters", bytes(entry.opaque.parameters)


def _none(_v1: bytes) -> Iterator[_Entry]:
    return iter(())


_PLACES: Final[dict[str, Callable[[bytes], Iterator[_Entry]]]] = {
    "DeviceClass": _of_class,
    "ResourceClaim": _of_claim,
    "ResourceClaimTemplate": _of_template,
}
