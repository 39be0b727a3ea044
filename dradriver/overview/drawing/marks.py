"""Gives each device of a card a letter and a color, and describes it in words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeAlias
from zlib import crc32

from dradriver.overview.values import Card, CardDevice

__all__ = [
    "COLORS",
    "LETTERS",
    "NO_LETTER",
    "DeviceNodes",
    "Mark",
    "count_fitting",
    "describe_card",
    "mark_devices",
    "sort_for_legend",
]

LETTERS: Final = ascii_uppercase + ascii_lowercase
NO_LETTER: Final = "#"
"""Mark of all devices after the last letter."""
COLORS: Final = 8
"""Number of colors of claims."""
_UNUSED: Final = "-"

DeviceNodes: TypeAlias = Mapping[str, Sequence[str]]
"""The nodes that reach a device, by name of the device."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A device of a card in drawings.

    Attributes:
        device: the device.
        letter: the letter in the drawing; `-` for a device that is not in use.
        color: number of the color; None for a device that is not in use. Devices of one claim have one color.
        nodes: the nodes that reach the device; empty: all nodes that reach the pool.
    """

    device: CardDevice
    letter: str
    color: int | None
    nodes: Sequence[str] = ()

    @property
    def is_problem(self) -> bool:
        """Return whether the device is tainted or not healthy."""
        return bool(self.device.taints) or self.device.health == "unhealthy"

    @property
    def users(self) -> Sequence[str]:
        """Return the claims and pods that use the device, and the nodes that reach it, each in words."""
        device = self.device
        words = [*(f"claim {claim}" for claim in device.claims), *(f"pod {pod}" for pod in device.pods)]
        on = [f"reached by {', '.join(self.nodes)}"] if self.nodes else []
        return [*(words or ["not in use"]), *on]

    @property
    def problems(self) -> Sequence[str]:
        """Return the taints of the device and its health, each in words. A healthy device has none."""
        health = [self.device.health] if self.device.health in {"unhealthy", "unknown"} else []
        return [*health, *(f"taint {taint}" for taint in self.device.taints)]

    @property
    def words(self) -> Sequence[str]:
        """Return what is known about the device besides its name."""
        return [*self.users, *self.problems]


def mark_devices(card: Card, device_nodes: DeviceNodes | None = None) -> list[Mark]:
    """Return the marks of `card.listed`, in their order. Letters follow the order in the first lane.

    Args:
        card: the card.
        device_nodes: `Reach.device_nodes` of a pool that several nodes reach.
    """
    used = [at for at, device in enumerate(card.listed) if device.claims]
    starts: dict[int, float] = {}
    for segment in card.lanes[0].segments if card.lanes else ():
        starts.setdefault(segment.device, segment.start)
    used.sort(key=lambda at: (starts.get(at, 1.0), at))
    letters = dict(zip(used, chain(LETTERS, repeat(NO_LETTER)), strict=False))
    colors = _choose_colors(card.listed[at].claims[0] for at in used)
    return [
        Mark(
            device,
            letters.get(at, _UNUSED),
            colors[device.claims[0]] if device.claims else None,
            (device_nodes or {}).get(device.name, ()),
        )
        for at, device in enumerate(card.listed)
    ]


def sort_for_legend(marks: Iterable[Mark]) -> list[Mark]:
    """Return the marks in the order of their letters; devices that are not in use come last.

    Args:
        marks: the marks of a card.
    """
    order = f"{LETTERS}{NO_LETTER}{_UNUSED}"
    return sorted(marks, key=lambda mark: order.index(mark.letter))


def _choose_colors(claims: Iterator[str]) -> dict[str, int]:
    """Return a color for each claim.

    A claim has the same color on all cards, unless another claim of the card has this color too.
    """
    chosen: dict[str, int] = {}
    for claim in claims:
        if claim not in chosen:
            wanted = crc32(claim.encode()) % COLORS
            free = [(wanted + step) % COLORS for step in range(COLORS)]
            chosen[claim] = next((color for color in free if color not in chosen.values()), wanted)
    return chosen


def describe_card(card: Card, marks: Sequence[Mark]) -> Iterator[str]:
    """Yield sentences with everything that the drawing of a card shows.

    Args:
        card: the card.
        marks: the marks of its devices.
    """
    for lane in card.lanes:
        yield f"{lane.name}: {lane.used} of {lane.total} used."
    for mark in sort_for_legend(marks):
        yield f"{mark.letter} {mark.device.name}: {', '.join(mark.words)}."
    yield f"{count_fitting(card)}."


def count_fitting(card: Card) -> str:
    """Return how many devices of a card still fit, in words.

    Args:
        card: the card.
    """
    noun = "device" if card.devices == 1 else "devices"
    return f"{len(card.fitting)} of {card.devices} {noun} still fit"
