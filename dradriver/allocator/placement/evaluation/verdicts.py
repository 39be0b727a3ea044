"""The verdict of a claim shape on the nodes of a class, and how verdicts of independent parts are joined."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.device_choice import ParsedClaims
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.search.packing import FULL_DEVICE_COST
from dradriver.allocator.supply.order import Preference
from dradriver.model.quantity import Quantity

__all__ = [
    "FAULTY",
    "NO_PREFERENCE",
    "REFUSED",
    "UNDECIDED",
    "ClassChoice",
    "ShapeFits",
    "Verdict",
    "add_ratings",
]


@dataclass(frozen=True, slots=True)
class ClassChoice:
    """A device that is chosen on each node of a class.

    Attributes:
        subrequest: the subrequest that it serves.
        entry: the position of the device's pool among the pools that the node sees.
        device: the device's number in this pool.
        consumed: the capacity that a share consumes; None if the device is allocated as a whole.
    """

    subrequest: Subrequest
    entry: int
    device: int
    consumed: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class ShapeFits:
    """The verdict that the claim shape fits.

    Attributes:
        rating: the rating of the devices. A smaller rating is better.
        choices: the devices, in the order of the requests.
    """

    rating: Preference
    choices: tuple[ClassChoice, ...]


REFUSED: Final = "refused"
UNDECIDED: Final = "undecided"
FAULTY: Final = "faulty"
"""The verdict that the claims are wrong, as the search on a node of the class has found."""

Verdict: TypeAlias = ShapeFits | str

NO_PREFERENCE: Final[Preference] = (0,) * (1 + len(FULL_DEVICE_COST))
"""The sum of the preferences of no devices."""


def add_ratings(one: Preference, other: Preference) -> Preference:
    """Return the rating of two parts of a claim together.

    The elements are added. A part whose order has no preferences has the rating `()` or `BINDING_RATING`.
    """
    if len(one) == len(other) and one:
        return one if len(one) == 1 else tuple([a + b for a, b in zip(one, other, strict=True)])
    return one or other


def join_verdicts(one: ShapeFits, other: ShapeFits, parsed: ParsedClaims) -> ShapeFits:
    """Return the verdict of two parts of a claim together.

    Args:
        one: the verdict of a part.
        other: the verdict of the other part.
        parsed: the claims.
    """
    number = {id(each): at for at, request in enumerate(parsed.requests) for each in request.alternatives}
    choices = sorted((*one.choices, *other.choices), key=lambda choice: number[id(choice.subrequest)])
    return ShapeFits(add_ratings(one.rating, other.rating), tuple(choices))
