"""The whole screen as lines of text: a pure function of the overview, the state and the size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, islice, takewhile
from typing import Final, NamedTuple

from dradriver.cli.top.detail_view import detail_lines
from dradriver.cli.top.items import ItemIndex, ItemKey
from dradriver.cli.top.list_view import ListRows, draw_list, item_lines, list_head
from dradriver.cli.top.lists import (
    change_lines,
    help_lines,
    list_changes,
    list_problems,
    list_waiting,
    waiting_lines,
)
from dradriver.cli.top.spans import Line, Span, pad, plain_text, sanitize, wrapped
from dradriver.cli.top.state import ScreenState
from dradriver.overview.values import Overview

__all__ = ["Frame", "Picture", "draw_everything", "draw_screen"]

_SIDE_BY_SIDE: Final = 130
"""Width from which the detail of the selected item is shown beside the list."""
_PANELS_FROM: Final = 18
"""Height from which the list shares the screen with what waits and what changed."""
_TITLES: Final = {
    "waiting": "WAITING FOR DEVICES, the oldest first",
    "changes": "RECENT CHANGES, the newest first",
    "problems": "POOLS THAT CANNOT BE USED",
}
_HINTS: Final = (
    *("q quit", "? help", "/ filter", "s order", "d driver", "p problems", "f free", "w waiting"),
    *("Enter detail", "c changes", "b broken pools", "Esc all rows"),
)
"""The keys of the list, the most important first. Keys that do not fit are in the help."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn.

    Attributes:
        overview: the overview.
        index: its items.
        now: the present time.
        stale: why the overview is not current; empty if it is current.
        current_at: when the overview was last current.
        missing: kinds of objects that the overview lacks, with the reasons.
    """

    overview: Overview
    index: ItemIndex
    now: datetime
    stale: str = ""
    current_at: datetime | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


class Frame(NamedTuple):
    """A drawn screen.

    Attributes:
        lines: exactly as many lines as the screen has.
        first: position of the first visible item, for `ScreenState.first`.
        offset: lines above the first visible line, for `ScreenState.offset`.
        page: number of items or lines of a page, for `KeyContext.page`.
    """

    lines: tuple[Line, ...]
    first: int
    offset: int
    page: int


def draw_screen(picture: Picture, state: ScreenState, width: int, height: int) -> Frame:
    """Return the screen. Only visible rows are computed.

    Args:
        picture: what is drawn.
        state: the state, after `keep_selection`.
        width: width of the screen in characters.
        height: number of lines of the screen.
    """
    head = list(_head(picture, state, width))[: max(0, height - 2)]
    rows = max(1, height - len(head) - 1)
    first, offset, page = state.first, state.offset, rows
    if state.view == "devices":
        body, first, page = _devices(picture, state, width, rows)
    else:
        body, offset = _scrolled(picture, state, width, rows)
    body = [*body[:rows], *[()] * (rows - len(body))]
    lines = [*head, *body, _foot(state, width)][-height:]
    return Frame(tuple(lines), first, offset, page)


def draw_everything(picture: Picture, state: ScreenState, width: int) -> Iterator[Line]:
    """Yield the whole picture, as long as it is: for files and pipes.

    Args:
        picture: what is drawn.
        state: the state: its filters, and the item in detail.
        width: width of the lines in characters.
    """
    yield from _head(picture, state, width)
    if state.view == "detail" and state.selected is not None:
        yield from detail_lines(picture.overview, state.selected, width, picture.now)
        return
    shown = picture.index.shown(state.filter)
    yield list_head(shown, width)
    column = len(list_head(shown, width)[0].text) - len("    USED   FIT  DEVICES")
    for key in shown:
        if (item := picture.index.get(key)) is not None:
            yield from item_lines(item, column, width, is_selected=False)
    for title, lines in (
        (_TITLES["waiting"], list_waiting(picture.overview, width, picture.now)),
        (_TITLES["problems"], list_problems(picture.overview, width)),
    ):
        yield ()
        yield (Span(title, "title"),)
        yield from lines


def _head(picture: Picture, state: ScreenState, width: int) -> Iterator[Line]:
    nodes, bad, used = picture.index.totals()
    clock = f"{picture.now.astimezone():%H:%M:%S}"
    facts = [
        _count(nodes, "node"),
        *([_count(reaches, "shared pool")] if (reaches := len(picture.overview.reaches)) else []),
        f"{used:.0%} used",
        f"{bad} with problems",
        f"{len(picture.overview.waiting)} waiting",
    ]
    text = f"top  {', '.join(facts)}"
    yield (*pad((Span(text, "title"),), max(0, width - len(clock) - 1)), Span(f" {clock}"))
    if picture.stale:
        at = f"{picture.current_at.astimezone():%H:%M:%S}" if picture.current_at else "before"
        yield from wrapped(f"! NOT CURRENT since {at}: {picture.stale}", width, "problem", hanging=2)
    for name, reason in picture.missing.items():
        yield from wrapped(f"! without {name}: {reason}", width, "problem", hanging=2)
    yield from wrapped(_describe_filter(picture, state), width, "dim", hanging=2)


def _describe_filter(picture: Picture, state: ScreenState) -> str:
    wanted = state.filter
    parts = [f"order: {wanted.sort}"]
    if wanted.text or state.is_typing:
        parts.append(f"filter: {wanted.text}{'_' if state.is_typing else ''}")
    if wanted.driver:
        parts.append(f"driver: {wanted.driver}")
    parts += ["only problems"] * wanted.only_problems + ["only free"] * wanted.only_free
    shown, total = len(picture.index.shown(wanted)), picture.index.total
    if shown != total:
        parts.append(f"{shown} of {total} rows")
    if broken := len(picture.overview.problems):
        parts.append(f"{_count(broken, 'broken pool')} (b)")
    return "  ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _foot(state: ScreenState, width: int) -> Line:
    hints: Sequence[str] = _HINTS
    if state.is_typing:
        hints = ("Enter keep", "Esc remove", "Backspace and Ctrl-U correct")
    elif state.view != "devices":
        hints = ("q quit", "Esc back", "Up, Down, Page Up and Page Down scroll")
    fitting = takewhile(lambda text: len(text) <= width, accumulate(hints, "{}  {}".format))
    return (Span(f"{max(fitting, key=len, default=''):{width}}", "selected"),)


def _devices(picture: Picture, state: ScreenState, width: int, rows: int) -> tuple[list[Line], int, int]:
    """Return the list, with the detail beside it and the panels below it if there is space."""
    panels = list(_panels(picture, width, rows)) if rows >= _PANELS_FROM - 3 else []
    rows -= len(panels)
    left = width if width < _SIDE_BY_SIDE else width * 11 // 20
    shown = picture.index.shown(state.filter)
    drawn = draw_list(picture.index, shown, state, left - (left < width), rows - 1)
    lines = [_list_head(shown, drawn, left), *drawn.lines]
    if not shown:
        lines.append((Span(_why_empty(picture), "dim"),))
    lines += [()] * (rows - len(lines))
    if left < width and state.selected is not None:
        detail = detail_lines(picture.overview, state.selected, width - left - 2, picture.now)
        right = [*islice(detail, rows)]
        right += [()] * (rows - len(right))
        lines = [(*pad(one, left), Span("| ", "dim"), *other) for one, other in zip(lines, right, strict=True)]
    return [*lines, *panels], drawn.first, drawn.page


def _list_head(shown: Sequence[ItemKey], drawn: ListRows, width: int) -> Line:
    """Return the head of the list, with the position of the visible rows if others are not visible."""
    head = list_head(shown, width)
    text = f" {drawn.first + 1}-{drawn.first + drawn.visible} of {len(shown):,} "
    if drawn.visible == len(shown) or len(plain_text(head)) + len(text) > width:
        return head
    return *pad(head, max(0, width - len(text))), Span(text, "dim")


def _why_empty(picture: Picture) -> str:
    return "  No row matches the filters: Esc removes them." if picture.index.total else "  No devices."


def _panels(picture: Picture, width: int, rows: int) -> Iterator[Line]:
    """Yield what waits and what changed, shortened."""
    each = max(2, rows // 8)
    overview = picture.overview
    yield _panel_title(f"WAITING {len(overview.waiting)}", "w shows all", width)
    waiting: Sequence[Line] = [
        line
        for each_waiting in overview.waiting[:each]
        for line in waiting_lines(each_waiting, width, picture.now, is_short=True)
    ]
    yield from [*waiting, *[()] * (each - len(waiting))]
    yield _panel_title("CHANGES", "c shows all", width)
    changes: Sequence[Line] = [
        line for change in overview.changes[:each] for line in change_lines(change, width, is_short=True)
    ]
    yield from [*changes, *[()] * (each - len(changes))]


def _panel_title(title: str, hint: str, width: int) -> Line:
    return Span(title, "title"), Span(" " * max(1, width - len(title) - len(hint))), Span(hint, "dim")


def _scrolled(picture: Picture, state: ScreenState, width: int, rows: int) -> tuple[list[Line], int]:
    """Return the visible lines of a view that scrolls, and their offset."""
    lines = list(_view_lines(picture, state, width))
    offset = max(0, min(state.offset, len(lines) - rows))
    visible = lines[offset : offset + rows]
    hidden = len(lines) - offset - rows
    if hidden > 0:
        visible[-1] = (Span(sanitize(f"-- {hidden + 1} more lines --"), "dim"),)
    return visible, offset


def _view_lines(picture: Picture, state: ScreenState, width: int) -> Iterator[Line]:
    if state.view in _TITLES:
        yield (Span(_TITLES[state.view], "title"),)
    match state.view:
        case "detail" if state.selected is not None:
            yield from detail_lines(picture.overview, state.selected, width, picture.now)
        case "waiting":
            yield from list_waiting(picture.overview, width, picture.now)
        case "changes":
            yield from list_changes(picture.overview, width)
        case "problems":
            yield from list_problems(picture.overview, width)
        case _:
            yield from help_lines(width)
