"""Quantities (`1Gi`, `500m`) as Kubernetes reads and rewrites them.

The server answers with the canonical form (`1024Mi` becomes `1Gi`), because Go parses and prints quantities.
Amounts are integers in units of 1e-9, rounded up, so that comparisons are exact. Source: apimachinery
`pkg/api/resource`.
"""

import re
from fractions import Fraction
from math import ceil

NANO = 10**9
_MAX_CHARACTERS = 400  # characters; no amount needs more, and Python rejects numbers with over 4,300 digits
_NUMBER = re.compile(r"^([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(.*)$")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_NAMES = {power: suffix for suffix, power in _BINARY.items()}
_EXPONENT = re.compile(r"^[eE]([+-]?[0-9]+)$")

ERROR = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _split(text: str) -> tuple[Fraction, str]:
    match = _NUMBER.match(text)
    if match is None or len(text) > _MAX_CHARACTERS:
        raise ValueError(ERROR)
    sign, digits, suffix = match.groups()
    value = Fraction(digits if not digits.endswith(".") else digits[:-1])
    exponent = _EXPONENT.match(suffix)
    if suffix in _BINARY:
        value *= 1024 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        value *= Fraction(10) ** _DECIMAL[suffix]
    elif exponent is not None and abs(int(exponent.group(1))) <= 400:
        value *= Fraction(10) ** int(exponent.group(1))
    else:
        raise ValueError(ERROR)
    style = "binary" if suffix in _BINARY else "exponent" if exponent else "decimal"
    return (-value if sign == "-" else value), style


def parse_amount(text: str) -> int:
    """Return the quantity in units of 1e-9.

    Raises:
        ValueError: the text is not a quantity.
    """
    return _to_nano(_split(text)[0])


def _to_nano(value: Fraction) -> int:
    scaled = abs(value) * NANO
    return ceil(scaled) if value >= 0 else -ceil(scaled)


def canonicalize(text: str) -> str:
    """Return the quantity as Kubernetes prints it.

    Raises:
        ValueError: the text is not a quantity.
    """
    return format_amount(parse_amount(text), text)


def format_amount(nano: int, like: str) -> str:
    """Return an amount in units of 1e-9 as Kubernetes prints it.

    The result has the form (binary, decimal, exponent) of the text `like`.
    """
    style = _split(like)[1]
    if nano == 0:
        return "0"
    if style == "binary" and abs(nano) >= 1024 * NANO:
        return _format_binary(nano)
    return _format_decimal(nano, exponent_form=style == "exponent")


def _format_binary(nano: int) -> str:
    number, power = -(-nano // NANO), 0
    while number % 1024 == 0 and power < len(_BINARY):
        number, power = number // 1024, power + 1
    return f"{number}{_BINARY_NAMES.get(power, '')}"


def _format_decimal(nano: int, *, exponent_form: bool) -> str:
    number, exponent = nano, -9
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    while exponent % 3 or (exponent > 18 and not exponent_form):
        number, exponent = number * 10, exponent - 1
    if exponent_form:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_NAMES[exponent]}"
