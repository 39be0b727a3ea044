"""A drawing of boxes, lines and texts, as an SVG file without anything from elsewhere.

The file follows the reader's choice of light or dark. It has a title and a description for screen readers.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, Literal

__all__ = ["Box", "Drawing", "Point"]

Point = tuple[float, float]

_STYLE: Final = """
    svg { font: 13px system-ui, sans-serif; }
    .paper { fill: #ffffff; }
    .box { fill: #e8eaf6; stroke: #3f51b5; }
    .group { fill: none; stroke: #757575; stroke-dasharray: 5 4; }
    .line { stroke: #424242; fill: none; }
    .faint { stroke: #9e9e9e; stroke-dasharray: 3 4; }
    .head { fill: #424242; }
    text { fill: #212121; }
    .small, .label { font-size: 12px; fill: #424242; }
    .label { paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #1e2129; }
      .box { fill: #2b3252; stroke: #9fa8da; }
      .group { stroke: #9e9e9e; }
      .line { stroke: #e0e0e0; }
      .faint { stroke: #757575; }
      .head { fill: #e0e0e0; }
      text { fill: #f5f5f5; }
      .small, .label { fill: #e0e0e0; }
      .label { stroke: #1e2129; }
    }
"""


class Box:
    """A rectangle with a name.

    Args:
        center: its middle, in pixels.
        size: its width and height, in pixels.
    """

    def __init__(self, center: Point, size: Point) -> None:
        self.center = center
        self.size = size

    def edge_towards(self, other: Point, shift: Point = (0, 0)) -> Point:
        """Return the point of the border on the line from the middle to another point.

        Args:
            other: the other end of the line.
            shift: moves the whole line.
        """
        (x, y), (width, height) = self.center, self.size
        dx, dy = other[0] - x, other[1] - y
        scale = min(
            (width / 2 - math.copysign(shift[0], shift[0] * dx)) / abs(dx) if dx else math.inf,
            (height / 2 - math.copysign(shift[1], shift[1] * dy)) / abs(dy) if dy else math.inf,
        )
        return x + shift[0] + dx * scale, y + shift[1] + dy * scale


class Drawing:
    """Collects the elements of one picture.

    Args:
        title: the name of the picture, for screen readers.
        description: what the picture shows, for screen readers.
        size: width and height, in pixels.
    """

    def __init__(self, title: str, description: str, size: Point) -> None:
        self._title = title
        self._description = description
        self._size = size
        self._elements: list[str] = []

    def add_box(self, center: Point, size: Point, *lines: str, kind: Literal["box", "group"] = "box") -> Box:
        """Draw a rectangle with lines of text in its middle, or for a group at its upper border."""
        (x, y), (width, height) = center, size
        self._elements.append(
            f'<rect class="{kind}" x="{_number(x - width / 2)}" y="{_number(y - height / 2)}" '
            f'width="{_number(width)}" height="{_number(height)}" rx="6"/>'
        )
        first = y - height / 2 + 18 if kind == "group" else y - (len(lines) - 1) * 8.5 + 4.5
        for index, line in enumerate(lines):
            self._add_text((x, first + index * 17), line, "middle", "small" if index else "name")
        return Box(center, size)

    def add_label(self, at: Point, text: str, *, anchor: Literal["start", "middle", "end"] = "middle") -> None:
        """Draw the text of a line. It covers what is behind it."""
        self._add_text(at, text, anchor, "label")

    def add_line(self, points: Sequence[Point], *, arrow: bool = True, faint: bool = False) -> None:
        """Draw a line through the points, with an arrowhead at its end."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        style = "line faint" if faint else "line"
        self._elements.append(f'<polyline class="{style}" points="{path}"/>')
        if arrow:
            self._add_head(points[-2], points[-1])

    def render(self) -> str:
        """Return the SVG file."""
        width, height = map(_number, self._size)
        body = "\n  ".join(self._elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title description">\n'
            f'  <title id="title">{escape(self._title)}</title>\n'
            f'  <desc id="description">{escape(self._description)}</desc>\n'
            f"  <style>{_STYLE}  </style>\n"
            f'  <rect class="paper" width="{width}" height="{height}" rx="8"/>\n'
            f"  {body}\n</svg>\n"
        )

    def _add_text(self, at: Point, text: str, anchor: str, kind: str) -> None:
        self._elements.append(
            f'<text class="{kind}" x="{_number(at[0])}" y="{_number(at[1])}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def _add_head(self, start: Point, end: Point) -> None:
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        corners = [
            end,
            (end[0] - 9 * math.cos(angle - 0.4), end[1] - 9 * math.sin(angle - 0.4)),
            (end[0] - 9 * math.cos(angle + 0.4), end[1] - 9 * math.sin(angle + 0.4)),
        ]
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
        self._elements.append(f'<polygon class="head" points="{path}"/>')


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
