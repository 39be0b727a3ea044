"""Converts JSON and YAML builtins to values and back, and writes JSON like Go's encoder.

The API server compares `spec` and `status.allocation` byte for byte inside opaque parameters. So every body
that this project writes passes through `canonical()`. Opaque parameters from others stay unchanged raw bytes.
"""

import math
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.quantity import Quantity

__all__ = ["Value", "builtins", "canonical", "decode", "encode", "from_builtins", "rfc3339"]

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Base of all values with a JSON form: frozen, camelCase, defaults left out."""


def _decode_hook(wanted: type, raw: object) -> object:
    if wanted is Quantity:
        # Kubernetes also accepts a JSON number as a quantity.
        return Quantity(str(raw) if isinstance(raw, float) else cast(str, raw))
    raise NotImplementedError(wanted)


def _encode_hook(value: object) -> object:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(type(value))


@cache  # a handful of types
def _decoder(wanted: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wanted, dec_hook=_decode_hook)


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook, order="sorted")


def decode(wanted: type[T], data: bytes | str, subject: str = "") -> T:
    """Return the value of type `wanted` in a JSON text. Unknown fields are ignored.

    Args:
        wanted: the type.
        data: the JSON text.
        subject: name of the object, at the start of an error message.

    Raises:
        InvalidObjectError: the text is not JSON or does not fit; the problem names the field.
    """
    decoder = _decoder(cast(Hashable, wanted))
    try:
        try:
            return cast(T, decoder.decode(data))
        except msgspec.ValidationError as error:
            if "got `null`" not in str(error):
                raise
            # Go writes null for some empty lists (`status.devices[].conditions`), so null means no value.
            return cast(T, decoder.decode(_without_nulls(data)))
    except msgspec.DecodeError as error:
        raise InvalidObjectError(subject or wanted.__name__, [_problem(error)]) from None
    except UnicodeDecodeError:
        raise InvalidObjectError(subject or wanted.__name__, [Problem("", "is not UTF-8")]) from None


_OPAQUE: Final = frozenset({"parameters", "data"})  # these keep their bytes


def _without_nulls(data: bytes | str | msgspec.Raw) -> msgspec.Raw:
    """Return the same JSON without the members of objects that are null."""
    first = (data.encode() if isinstance(data, str) else bytes(data)).lstrip()[:1]
    if first == b"{":
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        kept = {key: value for key, value in members.items() if bytes(value).strip() != b"null"}
        small = {key: value if key in _OPAQUE else _without_nulls(value) for key, value in kept.items()}
        return msgspec.Raw(msgspec.json.encode(small))
    if first == b"[":
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
        return msgspec.Raw(msgspec.json.encode([_without_nulls(item) for item in items]))
    return data if isinstance(data, msgspec.Raw) else msgspec.Raw(data)


def from_builtins(wanted: type[T], data: object, subject: str = "") -> T:
    """Return the same as `decode`, for the result of a YAML reader."""
    return decode(wanted, _encoder.encode(data), subject)


def _problem(error: msgspec.DecodeError) -> Problem:
    # The message of msgspec is "Expected `str`, got `int` - at `$.spec.devices[0].name`".
    rule, _, place = str(error).partition(" - at `")
    return Problem(place.rstrip("`").removeprefix("key in ").removeprefix("$").removeprefix("."), rule)


def encode(value: object) -> bytes:
    """Return the value as JSON. Equal values give equal texts."""
    return _encoder.encode(value)


def builtins(value: object) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return the value as dicts, lists and scalars, with opaque parameters decoded."""
    return msgspec.json.decode(_encoder.encode(value))


def canonical(value: object) -> bytes:
    """Return the JSON text of Go's encoder: compact, keys sorted, `<>&` escaped, Go's number format."""
    text = _encoder.encode(_with_go_numbers(builtins(value)))
    for character, escape in _GO_ESCAPES:
        # These characters occur in JSON only inside strings, so a plain replacement is exact.
        text = text.replace(character, escape)
    return text


_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def _with_go_numbers(data: object) -> object:
    if isinstance(data, Mapping):
        return {key: _with_go_numbers(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_with_go_numbers(item) for item in data]
    if isinstance(data, float):
        return msgspec.Raw(_go_float(data).encode())
    return data


def _go_float(number: float) -> str:
    """Return a float64 as encoding/json prints it: plain from 1e-6 up to 1e21, else with an exponent."""
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    mantissa, _, exponent_text = f"{number!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    point = len(whole) - leading_zeros + int(exponent_text or 0)  # value = 0.digits * 10**point
    digits = digits.rstrip("0")
    if 1e-6 <= abs(number) < 1e21:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if point >= len(digits):
            return sign + digits + "0" * (point - len(digits))
        return f"{sign}{digits[:point]}.{digits[point:]}"
    exponent = point - 1
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    # Go writes e-07 as e-7 and e+21 as e+21.
    return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent)}"


def rfc3339(moment: datetime) -> str:
    """Return a moment as `metav1.Time` prints it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
