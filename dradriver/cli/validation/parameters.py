"""Warns about opaque parameters in a form that the API server does not compare as equal.

The server compares parameters byte by byte with the output of Go's encoder. If a client sends another form,
every later write of the object fails ("field is immutable"). kubectl decodes and encodes a file, so its form
does not matter. This applies to YAML, which has to be converted, and to JSON that is formatted for people. Only
JSON on one line may be sent unchanged, by a program or by `kubectl create --raw`.
"""

import json
from collections.abc import Iterator

import msgspec

from dradriver.cli.files import Document
from dradriver.errors import Problem
from dradriver.model.encoding.codec import canonical, decode
from dradriver.model.resource.claim import OpaqueConfig, ResourceClaim
from dradriver.model.resource.opaque import opaque_configs

__all__ = ["parameter_warnings"]


def parameter_warnings(document: Document, v1: bytes) -> Iterator[Problem]:
    """Yield a warning for each opaque parameter of the object that is not canonical JSON."""
    if not document.is_json or b"\n" in bytes(document.raw).strip():
        return
    for path, opaque in _entries(document.kind, v1):
        reasons = list(_reasons(bytes(opaque.parameters)))
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
    """A number as written."""

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


def _entries(kind: str, v1: bytes) -> Iterator[tuple[str, OpaqueConfig]]:
    yield from opaque_configs(kind, v1)
    if kind == "ResourceClaim" and (allocation := decode(ResourceClaim, v1).allocation) is not None:
        for index, given in enumerate(allocation.devices.config):
            if given.opaque is not None:
                yield f"status.allocation.devices.config[{index}].opaque.parameters", given.opaque
