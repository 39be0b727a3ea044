"""Lays out tables and prose for a terminal of any width. It never cuts off text or breaks a name.

The narrow columns of a table stay side by side. If a column is too wide, its cells are printed below their
rows, each on its own line as `column: value`. Longer texts are broken only after blanks and commas. If a single
word is too long, it continues past the edge.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final

__all__ = ["table_lines", "text_width", "wrap"]

_GAP: Final = 2
_INDENT: Final = 4
_PIECES: Final = re.compile(r"[^ ,]+,*|,+| +")
_EMPTY_CELLS: Final = frozenset({"", "-"})


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def text_width(text: str) -> int:
    """Return the number of columns that a terminal needs for a text. Some characters need two.

    Args:
        text: text without control characters.
    """
    if text.isascii():
        return len(text)
    return sum(
        (not unicodedata.combining(each)) + (unicodedata.east_asian_width(each) in {"W", "F"}) for each in text
    )


def _clean(cell: str) -> str:
    """Return a cell as one line, in which control characters are shown. They could change the terminal."""
    if cell.isprintable():
        return cell
    return _CONTROL.sub(lambda found: f"^{chr(ord(found[0]) % 0x80 ^ 0x40)}", " ".join(cell.splitlines()))


def _keep_plain(column: str, text: str) -> str:  # noqa: ARG001 - the default of `paint`
    return text


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    aligned_with: Sequence[Sequence[str]] = (),
    paint: Callable[[str, str], str] = _keep_plain,
) -> Iterator[str]:
    """Yield the lines of a table, beginning with its head.

    Args:
        columns: names in lower case.
        rows: one cell for each column; `-` for an empty cell.
        width: width of the terminal in characters.
        aligned_with: other rows of the same table; the columns are as wide as these rows need.
        paint: adds colors to the text of a cell. Its arguments are the name of the column and the text.
    """
    rows = [[_clean(cell) for cell in row] for row in rows]
    aligned_with = [[_clean(cell) for cell in row] for row in aligned_with]
    widths = [max(map(text_width, cells)) for cells in zip(columns, *rows, *aligned_with, strict=True)]
    kept = _fitting_columns(widths, width)
    yield _row([column.upper() for column in columns], columns, widths, kept, _keep_plain)
    for row in rows:
        yield _row(row, columns, widths, kept, paint)
        for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if number not in kept and cell not in _EMPTY_CELLS:
                yield from wrap(f"{column}: {cell}", width, _INDENT, _INDENT + 2)


def _fitting_columns(widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that stay in the rows.

    The widest columns are removed until the remaining columns fit. The first column is never removed.
    """
    kept = list(range(len(widths)))
    while len(kept) > 1 and sum(widths[each] + _GAP for each in kept) - _GAP > width:
        kept.remove(max(kept[1:], key=lambda each: (widths[each], each)))
    return kept


def _row(
    cells: Sequence[str],
    columns: Sequence[str],
    widths: Sequence[int],
    kept: Sequence[int],
    paint: Callable[[str, str], str],
) -> str:
    padding = [" " * (widths[each] - text_width(cells[each]) + _GAP) for each in kept[:-1]] + [""]
    painted = (paint(columns[each], cells[each]) for each in kept)
    return "".join(cell + blanks for cell, blanks in zip(painted, padding, strict=True)).rstrip()


def wrap(text: str, width: int, indent: int = 0, hanging: int = _INDENT) -> Iterator[str]:
    """Yield the lines of a text, broken after blanks and commas.

    Args:
        text: the text. If it begins with blanks, all its lines begin with these blanks.
        width: width of the terminal in characters.
        indent: blanks before the first line.
        hanging: blanks before all lines after the first.
    """
    own = len(text) - len(text.lstrip(" "))
    line, empty = " " * (indent + own), True
    for piece in _PIECES.findall(text[own:]):
        if not empty and len(line) + len(piece.rstrip(" ")) > width:
            yield line.rstrip(" ")
            line, empty = " " * (hanging + own), True
        if not (empty and piece.isspace()):
            line, empty = line + piece, False
    yield line.rstrip(" ")
