"""Converts JSON and decoded YAML to values and back, and writes JSON like Go's encoder.

In `spec` and `status.allocation`, the API server compares opaque parameters byte for byte. So every body that
this project writes is encoded by `canonical()`. The bytes of opaque parameters that other clients wrote stay
unchanged.
"""

import math
from collections.abc import Hashable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.quantity import Quantity

__all__ = ["Value", "builtins", "canonical", "decode", "encode", "from_builtins", "rfc3339"]

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Base class of all values with a JSON form: frozen, field names in camelCase, default values omitted."""


def _decode_hook(wanted: type, raw: object) -> object:
    if wanted is Quantity:
        # Kubernetes also accepts a JSON number as a quantity.
        return Quantity(str(raw) if isinstance(raw, float) else cast(str, raw))
    raise NotImplementedError(wanted)


def _encode_hook(value: object) -> object:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(type(value))


@cache  # there are only a few types
def _decoder(wanted: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wanted, dec_hook=_decode_hook)


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook, order="sorted")


def decode(wanted: type[T], data: bytes | str, subject: str = "") -> T:
    """Decode a JSON text to a value of type `wanted`. Unknown fields are ignored.

    Args:
        wanted: the type of the result.
        data: the JSON text.
        subject: name of the object. Error messages start with it.

    Raises:
        InvalidObjectError: the text is not JSON or does not fit the type. The problem names the field.
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


_OPAQUE: Final = frozenset({"parameters", "data"})  # the bytes of these fields stay unchanged


def _without_nulls(data: bytes | str | msgspec.Raw) -> msgspec.Raw:
    """Return the JSON text without those members of objects whose value is null."""
    first = (data.encode() if isinstance(data, str) else bytes(data)).lstrip()[:1]
    if first == b"{":
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        kept = {key: value for key, value in members.items() if bytes(value).strip() != b"null"}
        converted = {key: value if key in _OPAQUE else _without_nulls(value) for key, value in kept.items()}
        return msgspec.Raw(msgspec.json.encode(converted))
    if first == b"[":
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
        return msgspec.Raw(msgspec.json.encode([_without_nulls(item) for item in items]))
    return data if isinstance(data, msgspec.Raw) else msgspec.Raw(data)


def from_builtins(wanted: type[T], data: object, subject: str = "") -> T:
    """Convert the result of a YAML reader to a value, as `decode` does for JSON."""
    return decode(wanted, _encoder.encode(data), subject)


def _problem(error: msgspec.DecodeError) -> Problem:
    # The message of msgspec is "Expected `str`, got `int` - at `$.spec.devices[0].name`".
    rule, _, path = str(error).partition(" - at `")
    return Problem(path.rstrip("`").removeprefix("key in ").removeprefix("$").removeprefix("."), rule)


def encode(value: object) -> bytes:
    """Return the value as JSON. Equal values have equal JSON texts."""
    return _encoder.encode(value)


def builtins(value: object) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return the value as dicts, lists and scalars, with opaque parameters decoded."""
    return msgspec.json.decode(_encoder.encode(value))


def canonical(value: object) -> bytes:
    """Return the JSON text that Go's encoder writes: compact, sorted keys, `<>&` escaped, Go's numbers."""
    text = _encoder.encode(_go_decoder.decode(_encoder.encode(value)))
    for character, escape in _GO_ESCAPES:
        # In JSON these characters occur only inside strings, so they can simply be replaced.
        text = text.replace(character, escape)
    return text


_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def _go_float(number: float) -> str:
    """Return a float64 as encoding/json prints it: with an exponent if it is below 1e-6, or 1e21 or more."""
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    mantissa, _, exponent_text = f"{number!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    integer, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (integer + fraction).lstrip("0")
    leading_zeros = len(integer + fraction) - len(digits)
    point = len(integer) - leading_zeros + int(exponent_text or 0)  # value = 0.digits * 10**point
    digits = digits.rstrip("0")
    if 1e-6 <= abs(number) < 1e21:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if point >= len(digits):
            return sign + digits + "0" * (point - len(digits))
        return f"{sign}{digits[:point]}.{digits[point:]}"
    exponent = point - 1
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    # Go writes e-7 instead of e-07, but e+21 with the sign.
    return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent)}"


_go_decoder: Final = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(_go_float(float(text)).encode()))
"""Decodes plain values, in which floats are texts as Go prints them."""


def rfc3339(moment: datetime) -> str:
    """Return a time as `metav1.Time` prints it: in UTC, with whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
