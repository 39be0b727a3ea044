"""Draws cards as one SVG file, with headings and legends as text that is never cut."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from dradriver.overview.drawing.marks import DeviceNodes, Mark, count_fitting, mark_devices, sort_for_legend
from dradriver.overview.drawing.palette import card_style
from dradriver.overview.drawing.sections import DrawnSection, list_sections
from dradriver.overview.drawing.svg import CHARACTER_WIDTH, place_card
from dradriver.overview.values import Card, Overview

__all__ = ["draw_document"]

_MARGIN: Final = 24
_LINE: Final = 17
_GAP: Final = 28
_PAGE_WIDTH: Final = 1200
"""Cards stand side by side up to this width. A wider card makes the drawing wider."""
_HEAD_WIDTH: Final = CHARACTER_WIDTH * 14 / 12
"""Width of a character in headings."""


class _Block(NamedTuple):
    """SVG elements with their size. The elements start at the origin."""

    content: str
    width: float
    height: float


def draw_document(overview: Overview, title: str) -> str:
    """Return the cards of a cluster as the text of an SVG file.

    Args:
        overview: the cluster.
        title: title of the drawing.
    """
    parts, y, width = list[str](), float(_MARGIN), 0.0
    for block in _sections(list_sections(overview)):
        parts.append(f'<g transform="translate({_MARGIN} {y:g})">{block.content}</g>')
        y += block.height + _LINE
        width = max(width, block.width)
    if not parts:
        parts.append(_text(_MARGIN, y + _LINE, "no devices", "dim"))
    width, height = round(max(width, _PAGE_WIDTH / 3) + 2 * _MARGIN), round(y + _MARGIN)
    return (
        f'<svg class="card" xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n<title>{escape(title)}</title>\n<style>\n{card_style("svg.card")}\n'
        f'</style>\n<rect width="100%" height="100%" style="fill:var(--paper)"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _sections(sections: Iterable[DrawnSection]) -> Iterator[_Block]:
    for section in sections:
        lines = [section.name, *section.remarks]
        styles = ["head", *("bad" if section.is_problem else "dim" for _ in section.remarks)]
        head = _lines(zip(lines, styles, strict=True))
        cards = _arrange([_card(card, section.device_nodes) for card in section.cards])
        content = f'{head.content}<g transform="translate(0 {head.height + 8:g})">{cards.content}</g>'
        yield _Block(content, max(head.width, cards.width), head.height + 8 + cards.height)


def _arrange(blocks: Sequence[_Block]) -> _Block:
    """Return the blocks side by side, in as many rows as needed."""
    if not blocks:
        return _Block("", 0, 0)
    column = max(block.width for block in blocks)
    columns = max(1, int((_PAGE_WIDTH + _GAP) // (column + _GAP)))
    parts, y = list[str](), 0.0
    for first in range(0, len(blocks), columns):
        row = blocks[first : first + columns]
        for number, block in enumerate(row):
            parts.append(f'<g transform="translate({number * (column + _GAP):g} {y:g})">{block.content}</g>')
        y += max(block.height for block in row) + _GAP
    return _Block("".join(parts), min(len(blocks), columns) * (column + _GAP) - _GAP, y - _GAP)


def _card(card: Card, device_nodes: DeviceNodes | None) -> _Block:
    marks = mark_devices(card, device_nodes)
    product = [(card.product, "dim")] if card.product else []
    head = _lines([(card.name, "head"), (f"{card.driver}/{card.pool}", "dim"), *product])
    drawn = place_card(card, device_nodes=device_nodes)
    legend = _lines([*_legend(marks), (count_fitting(card), "dim")])
    head_height = head.height + 6
    below = head_height + drawn.height + 8
    return _Block(
        f'{head.content}<g transform="translate(0 {head_height:g})">{drawn.content}</g>'
        f'<g transform="translate(0 {below:g})">{legend.content}</g>',
        max(head.width, drawn.width, legend.width),
        below + legend.height,
    )


def _legend(marks: Iterable[Mark]) -> Iterator[tuple[str, str]]:
    for mark in sort_for_legend(marks):
        yield f"{mark.letter}  {mark.device.name}", ""
        yield from ((f"   {words}", "dim") for words in mark.users)
        yield from ((f"   {words}", "bad") for words in mark.problems)


def _lines(lines: Iterable[tuple[str, str]]) -> _Block:
    """Return lines of text, each with its style."""
    parts, width, y = list[str](), 0.0, 0.0
    for text, style in lines:
        y += _LINE
        parts.append(_text(0, y - 4, text, style))
        width = max(width, len(text) * (_HEAD_WIDTH if style == "head" else CHARACTER_WIDTH))
    return _Block("".join(parts), width, y)


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}" xml:space="preserve">{escape(text)}</text>'
