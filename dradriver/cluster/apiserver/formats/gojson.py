"""Writes JSON as Go does.

The real server compares opaque parameters byte by byte, but its encoder changes them when it answers. This
module makes the same changes. In every answer, JSON is compacted, and `<`, `>`, `&`, U+2028 and U+2029 are
escaped (`compact`). If the server decodes values to a generic map (strategic merge, server-side apply), they
get sorted keys and Go's number format (`canonicalize`). Values in a merge patch get sorted keys (`normalize`).
"""

import json
import re
from decimal import Decimal

import msgspec

from dradriver.cluster.apiserver.formats.values import JsonValue

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]+")
_INT64 = 1 << 63  # larger whole numbers are floats in Go


def compact(raw: bytes) -> bytes:
    """Return the same JSON without insignificant spaces, escaped as in Go. Order and numbers stay unchanged."""
    text = raw.decode()
    parts: list[str] = []
    end = 0
    for match in _STRING.finditer(text):
        parts.extend((_SPACE.sub("", text[end : match.start()]), _escape(match.group())))
        end = match.end()
    parts.append(_SPACE.sub("", text[end:]))
    return "".join(parts).encode()


def normalize(raw: bytes) -> bytes:
    """Return the same value in the form that Go writes after a merge patch.

    Keys are sorted, nulls in objects are removed, and the text is compacted and escaped. Strings and numbers
    stay unchanged.
    """
    first = raw.lstrip()[:1]
    if first == b"{":
        members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        kept = {
            key: normalize(bytes(value)) for key, value in members.items() if bytes(value).strip() != b"null"
        }
        listed = (_encode_string(key).encode() + b":" + kept[key] for key in sorted(kept, key=str.encode))
        return b"{" + b",".join(listed) + b"}"
    if first == b"[":
        items = msgspec.json.decode(raw, type=list[msgspec.Raw])
        return b"[" + b",".join(normalize(bytes(item)) for item in items) + b"]"
    return compact(raw)


def canonicalize(raw: bytes) -> bytes:
    """Return the same value as Go writes it from a generic map: sorted keys, compact, escaped, Go's numbers."""
    return encode(json.loads(raw)).encode()


def encode(value: JsonValue) -> str:
    """Return one generic value as Go's `json.Marshal` writes it."""
    if isinstance(value, dict):
        members = (f"{_encode_string(key)}:{encode(value[key])}" for key in sorted(value, key=str.encode))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, str):
        return _encode_string(value)
    if isinstance(value, float) or (isinstance(value, int) and not -_INT64 <= value < _INT64):
        return format_number(float(value))
    return json.dumps(value)


def format_number(value: float) -> str:
    """Return a float as Go writes it: in the shortest form, with an exponent below 1e-6 and from 1e21."""
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    digits = Decimal(repr(value))
    if 1e-6 <= abs(value) < 1e21:
        return _strip_zeros(format(digits, "f"))
    mantissa, exponent = f"{digits.normalize():e}".split("e")
    sign = "-" if exponent.startswith("-") else "+"
    size = exponent.lstrip("+-")
    # Go writes at least two digits, then turns e-09 into e-9.
    size = size if sign == "-" else size.zfill(2)
    return f"{mantissa}e{sign}{size}"


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _encode_string(value: str) -> str:
    return _escape(json.dumps(value, ensure_ascii=False))


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], text)
