"""Warns about opaque parameters in a form that makes later writes of the object fail.

The server compares parameters byte by byte with the output of Go's encoder. If a client sends parameters in
another form, each later write of the object fails ("field is immutable"). kubectl encodes a file again before
it sends it, so the form of YAML does not matter, and files with JSON on several lines are assumed to be sent by
kubectl too. JSON on one line may be sent unchanged by a program or by `kubectl create --raw`, so only its form
is checked.
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
    """Yield a warning for each opaque parameter of the object that is not canonical JSON.

    Args:
        document: the object.
        v1: JSON text of the object in the version v1.
    """
    if not document.is_json or b"\n" in bytes(document.raw).strip():
        return
    for path, opaque in _entries(document.kind, v1):
        reasons = list(_reasons(bytes(opaque.parameters)))
        if reasons:
            rule = (
                f"not the JSON of Go's encoder ({', '.join(reasons)}): kubectl rewrites it, but if another "
                "client "
                "sends it unchanged, later writes fail with 'field is immutable'"
            )
            yield Problem(path, rule)


def _reasons(raw: bytes) -> Iterator[str]:
    if raw == canonical(msgspec.json.decode(raw)):
        return
    loose = json.loads(raw, parse_float=_Literal, parse_int=_Literal)
    if any(list(keys) != sorted(keys) for keys in _objects(loose)):
        yield "keys are not sorted"
    if any(number != _as_go(number) for number in _numbers(loose)):
        yield "numbers such as 1.0 or 1e3"
    if any(sign in raw for sign in (b"<", b">", b"&")):
        yield "'<', '>' or '&' not escaped"
    if raw != _without_spaces(raw):
        yield "spaces between the values"


class _Literal(str):
    """A number as it is written in the text."""

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
        for index, config in enumerate(allocation.devices.config):
            if config.opaque is not None:
                yield f"status.allocation.devices.config[{index}].opaque.parameters", config.opaque
