"""Converts digits to numbers, up to a limit.

Python rejects numbers with thousands of digits, and no number that CEL can represent has so many.
"""

from typing import Final

from dradriver.cel.evaluate.errors import ErrorValue

__all__ = ["parse_digits"]

_MAX_DIGITS: Final = 400


def parse_digits(digits: str, base: int = 10) -> int:
    """Return the number that the digits, with an optional sign, represent.

    Raises:
        ErrorValue: there are more digits than a number of CEL can have.
    """
    if len(digits) > _MAX_DIGITS:
        raise ErrorValue(f"a number of {len(digits)} digits is too large")
    return int(digits, base)
