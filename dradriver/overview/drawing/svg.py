"""Draws a card as an SVG element: its lanes to scale, with a letter and a color for each device in use.

Color is never the only sign: each part has its letter, and parts of devices that are tainted or unhealthy are
hatched. In a lane of devices, these parts are hatched even if no claim has the device. The title and the
description of the element have all that the drawing shows.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple

from dradriver.overview.drawing.marks import DeviceNodes, Mark, describe_card, mark_devices
from dradriver.overview.values import Card, Lane, Segment

__all__ = ["CHARACTER_WIDTH", "DrawnCard", "draw_card", "place_card"]

CHARACTER_WIDTH: Final = 7.4
"""Width of a character, in pixels. The fonts of `palette` have at most this width at 12 px."""

_WIDTH: Final = 360
_LABEL_HEIGHT: Final = 16
_FIRST_HEIGHT: Final = 26
"""Height of the first lane, and of lanes that are like it, such as the hosts of a superpod."""
_HEIGHT: Final = 12
_GAP: Final = 7
_LETTER_WIDTH: Final = 10
_MAX_CELLS: Final = 64
"""If a lane has more cells, the borders of free cells are not drawn."""
_HATCH_STEP: Final = 6
_TOLERANCE: Final = 1e-9
"""Parts that overlap less touch each other: positions are rounded."""


class DrawnCard(NamedTuple):
    """The drawing of a card.

    Attributes:
        content: SVG elements.
        width, height: size in pixels.
    """

    content: str
    width: float
    height: float


def draw_card(card: Card, max_lanes: int | None = None, device_nodes: DeviceNodes | None = None) -> str:
    """Return a card as an SVG element. It needs the style sheet of `palette.card_style`.

    Args:
        card: the card.
        max_lanes: draw at most so many lanes, the most important ones first; None: all.
        device_nodes: `Reach.device_nodes` of a pool that several nodes reach.
    """
    drawn = place_card(card, max_lanes, device_nodes)
    width, height = _number(drawn.width), _number(drawn.height)
    return (
        f'<svg class="card" xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{drawn.content}</svg>'
    )


def place_card(card: Card, max_lanes: int | None = None, device_nodes: DeviceNodes | None = None) -> DrawnCard:
    """Return the content of `draw_card`, with its size.

    Args:
        card: the card.
        max_lanes: see `draw_card`.
        device_nodes: see `draw_card`.
    """
    marks = mark_devices(card, device_nodes)
    lanes = card.lanes[:max_lanes]
    width = max([_WIDTH, *(_label_width(lane) for lane in lanes)])
    parts = [
        f"<title>{escape(card.name)}</title>",
        f"<desc>{escape(' '.join(describe_card(card, marks)))}</desc>",
    ]
    y = 0.0
    for lane in lanes:
        is_first = (lane.cells, lane.total) == (lanes[0].cells, lanes[0].total)
        height = _FIRST_HEIGHT if is_first else _HEIGHT
        parts += _draw_label(lane, y, width)
        parts += _draw_lane(lane, marks, _Box(1, y + _LABEL_HEIGHT, width - 2, height))
        y += _LABEL_HEIGHT + height + _GAP
    return DrawnCard("".join(parts), width, max(1.0, y - _GAP + 1))


class _Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def part(self, segment: Segment) -> "_Box":
        """Return the part of the box that a segment occupies."""
        width = (segment.end - segment.start) * self.width
        return _Box(self.x + segment.start * self.width, self.y, width, self.height)

    def element(self, style: str) -> str:
        x, y, width, height = map(_number, self)
        return f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}"/>'


def _amounts(lane: Lane) -> str:
    over = ", overdrawn" if any(_overlap(*pair) for pair in pairwise(lane.segments)) else ""
    return f"{lane.used} of {lane.total}{over}"


def _overlap(first: Segment, second: Segment) -> bool:
    return second.start < first.end - _TOLERANCE


def _label_width(lane: Lane) -> float:
    return (len(lane.name) + len(_amounts(lane)) + 2) * CHARACTER_WIDTH


def _draw_label(lane: Lane, y: float, width: float) -> Iterator[str]:
    amounts = _amounts(lane)
    style = "bad" if amounts.endswith("overdrawn") else "dim"
    yield f'<text x="0" y="{_number(y + 11)}">{escape(lane.name)}</text>'
    yield f'<text class="{style} end" x="{_number(width)}" y="{_number(y + 11)}">{escape(amounts)}</text>'


def _draw_lane(lane: Lane, marks: Sequence[Mark], box: _Box) -> Iterator[str]:
    yield box.element("free")
    for segment in lane.unused:
        mark = marks[segment.device]
        part = box.part(segment)
        yield f"<g><title>{escape(_describe(mark))}</title>{part.element('free')}{_draw_hatch(part)}</g>"
    if 1 < lane.cells <= _MAX_CELLS:
        xs = (_number(box.x + box.width * cell / lane.cells) for cell in range(1, lane.cells))
        top, height = _number(box.y), _number(box.height)
        yield f'<path class="cell" d="{"".join(f"M{x} {top}v{height}" for x in xs)}"/>'
    for segment in lane.segments:
        yield _draw_part(marks[segment.device], box.part(segment))


def _draw_part(mark: Mark, box: _Box) -> str:
    parts = [f"<title>{escape(_describe(mark))}</title>", box.element(f"part c{mark.color}")]
    if mark.is_problem:
        parts.append(_draw_hatch(box))
    if box.width >= _LETTER_WIDTH:
        x, y = _number(box.x + box.width / 2), _number(box.y + box.height / 2 + 4)
        # On a hatched part, the letter has a border in the color of the part.
        style = f"letter s{mark.color}" if mark.is_problem else "letter"
        parts.append(f'<text class="{style}" x="{x}" y="{y}">{mark.letter}</text>')
    return f"<g>{''.join(parts)}</g>"


def _describe(mark: Mark) -> str:
    return f"{mark.letter} {mark.device.name}: {', '.join(mark.words)}"


def _draw_hatch(box: _Box) -> str:
    """Return diagonal lines. Lines need no definitions, so a drawing can be moved into any page."""
    lines = []
    offset = _HATCH_STEP - box.height
    while offset < box.width:
        first, last = max(0.0, offset), min(box.width, offset + box.height)
        start = f"M{_number(box.x + first)} {_number(box.y + box.height - (first - offset))}"
        lines.append(f"{start}L{_number(box.x + last)} {_number(box.y + box.height - (last - offset))}")
        offset += _HATCH_STEP
    return f'<path class="hatch" d="{"".join(lines)}"/>'


def _number(value: float) -> str:
    """Return a coordinate with at most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
