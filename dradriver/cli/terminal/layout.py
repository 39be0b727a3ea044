"""Layout of tables and prose for a terminal of any width. Nothing is cut, and no name is broken.

A table keeps its narrow columns side by side. The cells of the other columns follow below their row, one on
each line, as `column: value`. Longer texts are broken only after blanks and commas. A single word that is too
long continues past the edge.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

__all__ = ["table_lines", "wrapped"]

_GAP: Final = 2
_INDENT: Final = 4
_PIECES: Final = re.compile(r"[^ ,]+,*|,+| +")
_NOTHING: Final = frozenset({"", "-"})


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of a table, beginning with its head.

    Args:
        columns: names in lower case.
        rows: one cell for each column; `-` for an empty one.
        width: width of the terminal in characters.
    """
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    kept = _fitting(widths, width)
    yield _row([column.upper() for column in columns], widths, kept)
    for row in rows:
        yield _row([" ".join(cell.splitlines()) for cell in row], widths, kept)
        for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if number not in kept and cell not in _NOTHING:
                yield from wrapped(f"{column}: {' '.join(cell.splitlines())}", width, _INDENT, _INDENT + 2)


def _fitting(widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that stay in the rows.

    The widest are removed until the others fit, but never the first.
    """
    kept = list(range(len(widths)))
    while len(kept) > 1 and sum(widths[each] + _GAP for each in kept) - _GAP > width:
        kept.remove(max(kept[1:], key=lambda each: (widths[each], each)))
    return kept


def _row(cells: Sequence[str], widths: Sequence[int], kept: Iterable[int]) -> str:
    return (" " * _GAP).join(f"{cells[each]:{widths[each]}}" for each in kept).rstrip()


def wrapped(text: str, width: int, indent: int = 0, hanging: int = _INDENT) -> Iterator[str]:
    """Yield the lines of a text, broken after blanks and commas.

    Args:
        text: the text; blanks at its beginning are kept on all its lines.
        width: width of the terminal in characters.
        indent: blanks before the first line.
        hanging: blanks before the other lines.
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
