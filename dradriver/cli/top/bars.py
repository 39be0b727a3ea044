"""Draws lanes to scale: a letter for each device in use, and a style for its holder."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from string import ascii_lowercase, ascii_uppercase
from typing import Final
from zlib import crc32

from dradriver.cli.top.spans import HOLDER_STYLES, Line, Span, Style
from dradriver.overview.values import Card, CardDevice, Lane, Segment

__all__ = ["bar_width", "draw_lane", "holder_style", "main_lanes", "mark_devices"]

_LETTERS: Final = ascii_uppercase + ascii_lowercase
_NO_LETTER: Final = "#"
"""Mark of all devices after the last letter."""
_NUMBERS: Final = re.compile(r"\d+")
_FREE: Final = "."
_OVERDRAWN: Final = "!"
_SEVERAL: Final = "+"
"""Mark of a place that several devices share because the drawing is too small for each of them."""
_TINY: Final = 1e-9


def mark_devices(card: Card) -> Mapping[int, str]:
    """Return the letter of each device in use, by its index in `Card.listed`.

    Devices get letters in the order in which the lanes show them.

    Args:
        card: the card.
    """
    shown = (segment.device for lane in card.lanes for segment in lane.segments)
    others = (at for at, device in enumerate(card.listed) if device.claims)
    return dict(zip(dict.fromkeys(chain(shown, others)), chain(_LETTERS, repeat(_NO_LETTER)), strict=False))


def main_lanes(card: Card) -> Sequence[Lane]:
    """Return the lanes that represent a card where there is space for only a few.

    These are the first lane and the lanes that are parallel to it, such as a lane for each host of a superpod.
    The names of parallel lanes differ only in numbers; or the lanes have the same amount, and their names the
    same first word or last word.

    Args:
        card: the card.
    """
    if not card.lanes:
        return ()
    first = card.lanes[0]
    return [lane for lane in card.lanes if lane is first or _are_parallel(first, lane)]


def _are_parallel(one: Lane, other: Lane) -> bool:
    if _NUMBERS.sub("0", one.name) == _NUMBERS.sub("0", other.name):
        return True
    if (one.cells, one.total) != (other.cells, other.total):
        return False
    words, others = one.name.split("-"), other.name.split("-")
    if min(len(words), len(others)) == 1:
        return False
    return words[0] == others[0] or words[-1] == others[-1]


def holder_style(device: CardDevice) -> Style:
    """Return the style of the claims that have a device. A claim has the same style on all cards.

    Args:
        device: the device.
    """
    return HOLDER_STYLES[crc32(" ".join(device.claims).encode()) % len(HOLDER_STYLES)] if device.claims else ""


def bar_width(lane: Lane, width: int) -> int:
    """Return the number of characters with which a lane is drawn: a multiple of its cells, if they fit.

    Args:
        lane: the lane.
        width: maximum number of characters.
    """
    return width // lane.cells * lane.cells if 0 < lane.cells <= width else width


def draw_lane(card: Card, lane: Lane, marks: Mapping[int, str], width: int) -> Line:
    """Return a lane of exactly this width. `.` is free, `!` is overdrawn, `+` is shared by small parts.

    Args:
        card: the card of the lane.
        lane: the lane.
        marks: the letters of the devices, as `mark_devices` returns them.
        width: number of characters.
    """
    cells = _place(lane.segments, marks, width)
    line = []
    for (mark, device), run in groupby(cells):
        style = "problem" if mark == _OVERDRAWN else "dim" if device is None else _style(card, device)
        line.append(Span(mark * len(list(run)), style))
    return tuple(line)


def _style(card: Card, device: int) -> Style:
    return holder_style(card.listed[device])


def _place(
    segments: Sequence[Segment], marks: Mapping[int, str], width: int
) -> Iterator[tuple[str, int | None]]:
    """Yield the mark of each character, and the device whose style it has."""
    by_character: list[list[Segment]] = [[] for _ in range(width)]
    for segment in segments:
        first = min(int(segment.start * width + _TINY), width - 1)
        end = min(max(first + 1, -int(-(segment.end * width - _TINY) // 1)), width)
        for at in range(first, end):
            by_character[at].append(segment)
    for at, here in enumerate(by_character):
        if not here:
            yield _FREE, None
        elif len(here) == 1:
            yield marks[here[0].device], here[0].device
        else:
            yield _judge(here, marks, at / width, (at + 1) / width)


def _judge(
    here: Sequence[Segment], marks: Mapping[int, str], start: float, end: float
) -> tuple[str, int | None]:
    """Return the mark of a character that several segments touch."""
    shares = [min(each.end, end) - max(each.start, start) for each in here]
    if sum(shares) > (end - start) * (1 + 1e-6):
        return _OVERDRAWN, None
    hidden = sum(each.start >= start - _TINY and each.end <= end + _TINY for each in here)
    if hidden:
        return _SEVERAL, None
    largest = max(range(len(here)), key=lambda index: (shares[index], -index))
    return marks[here[largest].device], here[largest].device
