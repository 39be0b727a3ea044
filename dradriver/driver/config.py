"""Typed opaque configuration: what users write under `opaque.parameters`, as the author's own class.

Decoding is strict for what users send (an unknown field is an error that names it) and lenient for state
that was stored before an upgrade or downgrade (unknown fields are ignored).
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from dradriver.driver.mistakes import fitting, mistakes
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.codec import decode
from dradriver.model.encoding.strict import unknown_fields

__all__ = ["Config", "decode_config"]


class Config(msgspec.Struct, kw_only=True, rename="camel"):
    """Base of an author's opaque configuration.

    A subclass names its `api_version` and `kind`, as every Kubernetes object does, and declares typed fields;
    JSON names are camelCase. Rules beyond types go into `__post_init__`, raising ValueError with one sentence.

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
    """The configuration that an opaque parameter holds.

    Args:
        parameters: the JSON text.
        known: the classes that the driver declares in `Driver.configs`.
        subject: whose parameters these are, for messages.
        strict: whether an unknown field is an error.

    Raises:
        InvalidObjectError: not JSON, of a kind that is not known, or with unknown fields, wrong types and
            broken rules; all of them are listed.
    """
    try:
        return _decoded(parameters, known, subject, strict=strict)
    except RecursionError:
        raise InvalidObjectError(subject, [Problem("", "nested too deeply")]) from None


def _decoded(parameters: bytes, known: Sequence[type[Config]], subject: str, *, strict: bool) -> Config:
    meta = decode(_TypeMeta, parameters, subject)
    wanted = next((c for c in known if (c.api_version, c.kind) == (meta.api_version, meta.kind)), None)
    if wanted is None:
        raise InvalidObjectError(subject, [Problem("kind", _unknown_kind(meta, known))])
    body: dict[str, object] = decode(dict[str, Any], parameters, subject)
    fields = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    unknown = unknown_fields(wanted, fields) if strict else []
    problems = [Problem(path, f"{wanted.kind} has no such field") for path in unknown]
    try:
        config = fitting(wanted, fields)
    except InvalidObjectError as error:
        found = mistakes(wanted, fields) or error.problems
        raise InvalidObjectError(subject, [*problems, *found]) from error.__cause__  # the author's, if any
    if problems:
        raise InvalidObjectError(subject, problems)
    return config


def _unknown_kind(meta: _TypeMeta, known: Iterable[type[Config]]) -> str:
    names = ", ".join(f"{c.api_version} {c.kind}" for c in known) or "none: it takes no configuration"
    given = f"{meta.api_version or '(no apiVersion)'} {meta.kind or '(no kind)'}"
    return f"{given} is not known to the driver (known: {names})"
