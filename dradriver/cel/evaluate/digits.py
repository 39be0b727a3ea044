"""Digits to numbers, with an end: Python refuses thousands of digits, and no number here has so many."""

from typing import Final

from dradriver.cel.evaluate.errors import ErrorValue

__all__ = ["whole"]

_MOST: Final = 400


def whole(digits: str, base: int = 10) -> int:
    """The number that digits, with a sign or not, spell.

    Raises:
        Fault: there are more than any number that can be used has.
    """
    if len(digits) > _MOST:
        raise ErrorValue(f"a number of {len(digits)} digits is too large")
    return int(digits, base)
