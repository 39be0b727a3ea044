"""Typed opaque configuration: what users write under `opaque.parameters`, as the author's own class.

Decoding is strict for what users send (an unknown field is an error that names it) and lenient for state
that was stored before an upgrade or downgrade (unknown fields are ignored).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, cast

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.codec import decode, from_builtins
from dradriver.model.strict import unknown_fields

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
        InvalidObjectError: not JSON, of a kind that is not known, a wrong type, or an unknown field.
    """
    meta = decode(_TypeMeta, parameters, subject)
    wanted = next((c for c in known if (c.api_version, c.kind) == (meta.api_version, meta.kind)), None)
    if wanted is None:
        raise InvalidObjectError(subject, [Problem("kind", _unknown_kind(meta, known))])
    body = cast(Mapping[str, object], msgspec.json.decode(parameters))
    fields = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    if strict and (unknown := unknown_fields(wanted, fields)):
        problems = [Problem(path, f"{wanted.kind} has no such field") for path in unknown]
        raise InvalidObjectError(subject, problems)
    return from_builtins(wanted, fields, subject)


def _unknown_kind(meta: _TypeMeta, known: Iterable[type[Config]]) -> str:
    names = ", ".join(f"{c.api_version} {c.kind}" for c in known) or "none: it takes no configuration"
    given = f"{meta.api_version or '(no apiVersion)'} {meta.kind or '(no kind)'}"
    return f"{given} is not known to the driver (known: {names})"
