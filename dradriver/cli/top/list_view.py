"""The list of nodes and reaches: each row has the cards of one item, drawn to scale."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from dradriver.cli.top.bars import draw_lane, main_lanes, mark_devices
from dradriver.cli.top.items import ItemIndex, ItemKey, ListItem
from dradriver.cli.top.spans import Line, Span, Style, cut_middle, flow, sanitize
from dradriver.cli.top.state import ScreenState
from dradriver.overview.values import Card, Lane

__all__ = ["ListRows", "draw_list", "item_lines", "list_head"]

_BAR: Final = 24
"""Width of a bar without cells."""
_MIN_BAR: Final = 4
_MAX_BAR: Final = 64
"""If a card has more cells, a character represents several of them."""
_SHORT_BARS: Final = (8, _MIN_BAR)
"""Longest bars that are tried if the cards of an item need several lines."""
_INDENT: Final = 4
_NUMBERS: Final = 12
"""Width of the columns with numbers, with the blanks between them."""


class ListRows(NamedTuple):
    """The visible rows.

    Attributes:
        lines: the lines.
        first: position of the first visible item.
        page: number of items of a page.
        visible: number of items of which at least one line is visible.
    """

    lines: tuple[Line, ...]
    first: int
    page: int
    visible: int


def draw_list(
    index: ItemIndex, shown: Sequence[ItemKey], state: ScreenState, width: int, rows: int
) -> ListRows:
    """Return the visible part of the list, with the selected item in it. Only visible items are drawn.

    Args:
        index: the items.
        shown: the items of the list, in order.
        state: the state of the screen.
        width: width of the list in characters.
        rows: number of lines of the list.
    """
    name_width = _name_width(shown, width)

    def draw(at: int) -> list[Line]:
        item = index.get(shown[at])
        if item is None:
            return []
        return [*item_lines(item, name_width, width, shown[at] == state.selected, cuts_name=True)]

    at = max(0, min(state.at, len(shown) - 1))
    first = min(state.first, at)
    lowest, left = at, rows - (len(draw(at)) if shown else 0)
    while lowest > first and (needed := len(draw(lowest - 1))) <= left:
        lowest, left = lowest - 1, left - needed
    lines: list[Line] = []
    last = lowest - 1
    for last in range(lowest, len(shown)):
        lines += draw(last)
        if len(lines) >= rows:
            break
    return ListRows(tuple(lines[:rows]), lowest, max(1, last - lowest), last - lowest + 1)


def list_head(shown: Sequence[ItemKey], width: int) -> Line:
    """Return the head of the list.

    Args:
        shown: the items of the list.
        width: width of the list in characters.
    """
    return (Span(f"  {'NAME':{_name_width(shown, width)}}  USED   FIT  DEVICES", "title"),)


def _name_width(shown: Sequence[ItemKey], width: int) -> int:
    return min(max((len(key.name) for key in shown), default=4), max(4, width // 3))


def item_lines(
    item: ListItem, name_width: int, width: int, is_selected: bool, *, cuts_name: bool = False
) -> Iterator[Line]:
    """Yield the lines of an item.

    A name that is longer than its column is cut, or has its own line. If the item has cards of several
    drivers, each driver has its own line.

    Args:
        item: the item.
        name_width: width of the column of names.
        width: width of the list in characters.
        is_selected: whether the item is selected.
        cuts_name: whether a name that is longer than its column is cut in the middle.
    """
    style: Style = "selected" if is_selected else ""
    cursor = Span("> " if is_selected else "  ", style)
    numbers = Span(f"  {item.used:4.0%}  {_fitting(item)}", style), Span("  ")
    problems: Sequence[Line] = [(Span(f"! {', '.join(item.problems)}", "problem"),)] if item.problems else []
    hanging = name_width + 2 + _NUMBERS + 2
    name = sanitize(item.key.name)
    if cuts_name:
        name = cut_middle(name, name_width)
    if len(name) > name_width:
        yield cursor, Span(name, style)
        cursor, name = Span("  "), ""
    head: Line = (cursor, Span(f"{name:{name_width}}", style), *numbers)
    room = width - hanging
    if not item.cards and not problems:
        yield *head, Span("no devices of its own", "dim")
        return
    if len(item.drivers) <= 1:
        yield from flow([*_fitted_pieces(item.cards, room), *problems], width, head, hanging, 1)
        return
    yield from flow(problems, width, head, hanging)
    drivers = sorted(item.drivers)
    column = max(map(len, drivers))
    hanging = _INDENT + column + 2 if column < width // 2 else _INDENT
    for driver in drivers:
        label: Line = (Span(f"{'':{_INDENT}}{driver:{column}}  ", "dim"),)
        pieces = _fitted_pieces([card for card in item.cards if card.driver == driver], width - hanging)
        yield from flow(pieces, width, label, hanging, 1)


def _fitting(item: ListItem) -> str:
    return f"{item.fitting:4}" if item.fitting < 10_000 else "9999"


def _fitted_pieces(cards: Sequence[Card], room: int) -> Sequence[Line]:
    """Return the main lanes of cards, with the longest bars that need the fewest lines."""
    choices = [tuple(_pieces(cards, bar)) for bar in (min(_MAX_BAR, room - 2), *_SHORT_BARS)]
    return min(choices, key=lambda pieces: sum(1 for _ in flow(pieces, room, (), 0, 1)))


def _pieces(cards: Iterable[Card], most: int) -> Iterator[Line]:
    """Yield the main lanes of cards. Lanes of one card are in one piece, or in several if they do not fit."""
    most = max(_MIN_BAR, most)
    for card in cards:
        lanes, marks = main_lanes(card), mark_devices(card)
        if not lanes:
            yield (Span("[]", "dim"),)
        elif len(lanes) == 1:
            yield _bracket([draw_lane(card, lanes[0], marks, _lane_width(lanes[0], most))], "")
        else:
            each = max(1, min(_MIN_BAR, (most + 1) // len(lanes) - 1))
            gap = "|" if each > 1 else ""
            count = (most + len(gap)) // (each + len(gap))
            for first in range(0, len(lanes), count):
                part = lanes[first : first + count]
                yield _bracket([draw_lane(card, lane, marks, each) for lane in part], gap)


def _bracket(parts: Iterable[Line], gap: str) -> Line:
    spans = [Span("[", "dim")]
    for number, part in enumerate(parts):
        spans += [Span(gap, "dim")] if number and gap else []
        spans += part
    return *spans, Span("]", "dim")


def _lane_width(lane: Lane, most: int) -> int:
    if not lane.cells:
        return min(_BAR, most)
    if lane.cells <= most:
        return lane.cells * max(1, _MIN_BAR // lane.cells)
    return ceil(lane.cells / ceil(lane.cells / most))
