"""Lays out tables and prose for a terminal of any width. It never cuts off text or breaks a name.

The narrow columns of a table stay side by side. If a column is too wide, its cells are printed below their
rows, each on its own line as `column: value`. Longer texts are broken only after blanks and commas. If a single
word is too long, it continues past the edge.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

__all__ = ["table_lines", "wrap"]

_GAP: Final = 2
_INDENT: Final = 4
_PIECES: Final = re.compile(r"[^ ,]+,*|,+| +")
_EMPTY_CELLS: Final = frozenset({"", "-"})


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of a table, beginning with its head.

    Args:
        columns: names in lower case.
        rows: one cell for each column; `-` for an empty cell.
        width: width of the terminal in characters.
    """
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    kept = _fitting_columns(widths, width)
    yield _row([column.upper() for column in columns], widths, kept)
    for row in rows:
        yield _row([" ".join(cell.splitlines()) for cell in row], widths, kept)
        for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if number not in kept and cell not in _EMPTY_CELLS:
                yield from wrap(f"{column}: {' '.join(cell.splitlines())}", width, _INDENT, _INDENT + 2)


def _fitting_columns(widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that stay in the rows.

    The widest columns are removed until the remaining columns fit. The first column is never removed.
    """
    kept = list(range(len(widths)))
    while len(kept) > 1 and sum(widths[each] + _GAP for each in kept) - _GAP > width:
        kept.remove(max(kept[1:], key=lambda each: (widths[each], each)))
    return kept


def _row(cells: Sequence[str], widths: Sequence[int], kept: Iterable[int]) -> str:
    return (" " * _GAP).join(f"{cells[each]:{widths[each]}}" for each in kept).rstrip()


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
