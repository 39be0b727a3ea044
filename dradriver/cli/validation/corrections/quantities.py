"""Finds the quantities that a user probably meant."""

import re
from typing import Final

from dradriver.errors import DraError
from dradriver.model.quantity import Quantity

__all__ = ["is_quantity", "nearest_quantities"]

_AMOUNT: Final = re.compile(r"([+-]?)([0-9]+(?:[._,][0-9]+)*)\s*([A-Za-z]*)", re.ASCII)
_PREFIXES: Final = "KMGTPE"
_WORDS: Final = {
    "byte": "", "bytes": "", "b": "", "kilo": "K", "mega": "M", "giga": "G", "tera": "T", "peta": "P",
}  # fmt: skip
_THOUSANDS: Final = re.compile(r"[0-9]{1,3}(?:[_,][0-9]{3})+")


def nearest_quantities(text: str) -> list[str]:
    """Return quantities that Kubernetes reads and that are close to a text; empty if there are none.

    `40GB` can mean 40G (40 * 10^9) or 40Gi (40 * 2^30), so both are returned. `40GiB` only means 40Gi.

    Args:
        text: a text that is not a quantity.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return []
    sign, number, unit = match.groups()
    number = re.sub(r"[_,]", "", number) if _THOUSANDS.fullmatch(number) else number.replace(",", ".")
    return [amount for suffix in _suffixes(unit.lower()) if is_quantity(amount := f"{sign}{number}{suffix}")]


def _suffixes(unit: str) -> list[str]:
    """Return the suffixes that a unit can mean, without regard to its case."""
    unit = _WORDS.get(unit, unit).lower()
    for ending in ("bytes", "byte", "b"):
        unit = unit.removesuffix(ending)
    if not unit:
        return [""]
    prefix, rest = unit[0].upper(), unit[1:]
    if prefix not in _PREFIXES or rest not in {"", "i"}:
        return []
    binary = f"{prefix}i"
    return [binary] if rest else [prefix.replace("K", "k"), binary]


def is_quantity(text: str) -> bool:
    """Return whether Kubernetes reads a text as a quantity.

    Args:
        text: the text.
    """
    try:
        Quantity.parse(text)
    except DraError:
        return False
    return True
