"""Converts digits to numbers, up to a limit.

Python rejects thousands of digits, and no usable number has so many.
"""

from typing import Final

from dradriver.cel.evaluate.errors import ErrorValue

__all__ = ["whole"]

_MOST: Final = 400


def whole(digits: str, base: int = 10) -> int:
    """Return the number that the digits, with an optional sign, represent.

    Raises:
        ErrorValue: there are more digits than any usable number has.
    """
    if len(digits) > _MOST:
        raise ErrorValue(f"a number of {len(digits)} digits is too large")
    return int(digits, base)
