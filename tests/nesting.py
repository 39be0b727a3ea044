"""Depths of nested JSON that Python can or cannot read."""

from typing import Final

__all__ = ["LEVELS", "TOO_DEEP"]

TOO_DEEP: Final = 200_000
"""More than any Python reads: 3.11 reads about 1,000 levels, 3.12 about 3,000, 3.13 about 10,000."""
LEVELS: Final = (500, 2_000, 9_000, TOO_DEEP)
"""Some that all read, some that only newer ones read, and some that none reads."""
