"""Typed opaque configuration: the content of `opaque.parameters` as the author's own class.

Decoding is strict for users' input: an unknown field is an error that names the field. It is lenient for state
that was stored before an upgrade or downgrade: unknown fields are ignored.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from dradriver.driver.configuration.config_errors import convert, find_errors
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.codec import decode
from dradriver.model.encoding.strict import unknown_fields

__all__ = ["Config", "decode_config"]


class Config(msgspec.Struct, kw_only=True, rename="camel"):
    """Base class of an author's opaque configuration.

    A subclass sets `api_version` and `kind`, as every Kubernetes object does, and declares typed fields. The
    JSON names are camelCase. Put rules beyond types into `__post_init__`. If a rule is broken, it must raise
    a ValueError whose message is one sentence.

        class LoopConfig(dra.Config):
            api_version = "loop.example.com/v1"
            kind = "LoopConfig"
            read_only: bool = False
    """

    api_version: ClassVar[str]
    kind: ClassVar[str]


class _TypeMeta(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""


def decode_config(parameters: bytes, known: Sequence[type[Config]], subject: str, *, strict: bool) -> Config:
    """Decode opaque parameters into the driver's configuration class.

    Args:
        parameters: the JSON text.
        known: the classes that the driver declares in `Driver.configs`.
        subject: the object that has the parameters, for messages.
        strict: True: an unknown field is an error.

    Raises:
        InvalidObjectError: the text is not JSON, its kind is unknown, or it has unknown fields, wrong types or
            broken rules. The error lists all of them.
    """
    try:
        return _decode(parameters, known, subject, strict=strict)
    except RecursionError:
        raise InvalidObjectError(subject, [Problem("", "is nested too deeply")]) from None


def _decode(parameters: bytes, known: Sequence[type[Config]], subject: str, *, strict: bool) -> Config:
    meta = decode(_TypeMeta, parameters, subject)
    wanted = next((c for c in known if (c.api_version, c.kind) == (meta.api_version, meta.kind)), None)
    if wanted is None:
        raise InvalidObjectError(subject, [Problem("kind", _unknown_kind(meta, known))])
    body: dict[str, object] = decode(dict[str, Any], parameters, subject)
    fields = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    unknown = unknown_fields(wanted, fields) if strict else []
    problems = [Problem(path, f"{wanted.kind} has no such field") for path in unknown]
    try:
        config = convert(wanted, fields)
    except InvalidObjectError as error:
        errors = find_errors(wanted, fields) or error.problems
        raise InvalidObjectError(subject, [*problems, *errors]) from error.__cause__  # the author's, if any
    if problems:
        raise InvalidObjectError(subject, problems)
    return config


def _unknown_kind(meta: _TypeMeta, known: Iterable[type[Config]]) -> str:
    names = ", ".join(f"{c.api_version} {c.kind}" for c in known) or "none, it accepts no configuration"
    given = f"{meta.api_version or '(no apiVersion)'} {meta.kind or '(no kind)'}"
    return f"{given} is not known to the driver (known: {names})"
