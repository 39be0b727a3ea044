"""Header fields: those of requests, checked, and those of answers (RFC 9113, section 8; gRPC over HTTP/2)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from hpack.hpack import encode_integer

from dradriver.rpc.errors import Code

__all__ = [
    "ANSWER_HEAD",
    "NOT_GRPC",
    "REFUSAL_HEAD",
    "MalformedError",
    "RequestHead",
    "are_trailers",
    "read_head",
    "trailers",
]

_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_NEEDED: Final = frozenset({b":method", b":scheme", b":path"})
_FORBIDDEN: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
"""Fields of one connection of HTTP/1.1."""

_NAME: Final = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")
_TIMEOUT: Final = re.compile(rb"(\d{1,8})([HMSmun])")
_LENGTH: Final = re.compile(rb"\d{1,18}")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class MalformedError(Exception):
    """The fields are no request (RFC 9113, section 8.1.1)."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a request says of itself.

    Attributes:
        path: `/package.Service/Method`.
        seconds: how long the caller waits; None is for ever.
        is_grpc: whether it is a call of gRPC, and no other request.
        encoding: how its message is compressed, if it is.
        length: bytes of the body, where it says so.
    """

    path: str
    seconds: float | None
    is_grpc: bool
    encoding: bytes
    length: int | None


def read_head(fields: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """What the fields of a request say.

    Raises:
        MalformedError: they are none.
    """
    found: dict[bytes, bytes] = {}
    regular = False
    for name, value in fields:
        if name[:1] == b":":
            if regular or name not in _PSEUDO or name in found:
                raise MalformedError(f"pseudo-header {name!r}")
        else:
            regular = True
        if not _is_sound(name, value):
            raise MalformedError(f"field {name!r}")
        found[name] = value
    if not (found.keys() >= _NEEDED and found[b":path"]):
        raise MalformedError("a pseudo-header is missing")
    return RequestHead(
        path=found[b":path"].decode("ascii", "replace"),
        seconds=_seconds(found.get(b"grpc-timeout")),
        is_grpc=found[b":method"] == b"POST"
        and found.get(b"content-type", b"").startswith(b"application/grpc"),
        encoding=found.get(b"grpc-encoding", b"identity"),
        length=_length(found.get(b"content-length")),
    )


def are_trailers(fields: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether fields may come behind a body."""
    return all(name[:1] != b":" and _is_sound(name, value) for name, value in fields)


@lru_cache(maxsize=256)  # a client's requests differ in few of their fields
def _is_sound(name: bytes, value: bytes) -> bool:
    if name in _FORBIDDEN or (name == b"te" and value != b"trailers"):
        return False
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))


def _seconds(timeout: bytes | None) -> float | None:
    if timeout is None:
        return None
    if (read := _TIMEOUT.fullmatch(timeout)) is None:
        raise MalformedError("grpc-timeout")
    return int(read[1]) * _SECONDS[read[2]]


def _length(text: bytes | None) -> int | None:
    if text is None:
        return None
    if not _LENGTH.fullmatch(text):
        raise MalformedError("content-length")
    return int(text)


def _literal(name: bytes, value: bytes) -> bytes:
    """A field that no table remembers (RFC 7541, section 6.2.2)."""
    return b"\x00" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    return bytes(encode_integer(len(text), 7)) + text


_OK: Final = _literal(b"grpc-status", b"0")
_STATUS_200: Final = b"\x88"  # the static table's eighth entry

_NO_TABLE: Final = b"\x20"
"""The table of what we send has no room, whatever the peer allows (RFC 7541, section 6.3): it stays empty."""

ANSWER_HEAD: Final = _NO_TABLE + _STATUS_200 + _literal(b"content-type", b"application/grpc")
"""The fields before the first message of an answer."""

REFUSAL_HEAD: Final = ANSWER_HEAD + _literal(b"grpc-accept-encoding", b"identity")
"""The fields before the trailers where no method was called: the client may have to compress otherwise."""

NOT_GRPC: Final = _NO_TABLE + _literal(b":status", b"415")
"""The fields of the answer to what is no call of gRPC: 415, Unsupported Media Type."""


def trailers(code: Code, text: str) -> bytes:
    """The fields behind the last message of an answer.

    Args:
        code: how the call ended.
        text: what the caller is told; any characters.
    """
    if code is Code.OK:
        return _OK
    told = text.encode(errors="replace")[:_MAX_TEXT].decode(errors="ignore")
    return _literal(b"grpc-status", str(int(code)).encode()) + _literal(
        b"grpc-message", quote(told, safe=_PLAIN).encode()
    )


_MAX_TEXT: Final = 2000
"""Bytes; even as escapes they are fewer than the 8 KiB of header fields that clients take."""
_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
