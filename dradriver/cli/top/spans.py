"""Styled text: spans, lines of spans, and lines that are wrapped to a width."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from dradriver.cli.terminal.layout import wrap

__all__ = [
    "HOLDER_STYLES",
    "Line",
    "Span",
    "Style",
    "clip",
    "cut_middle",
    "flow",
    "pad",
    "plain_text",
    "sanitize",
    "shorten",
    "wrapped",
]

Style: TypeAlias = Literal[
    "",
    "title",
    "dim",
    "problem",
    "selected",
    "holder-0",
    "holder-1",
    "holder-2",
    "holder-3",
    "holder-4",
    "holder-5",
    "holder-6",
    "holder-7",
    "holder-8",
    "holder-9",
    "holder-10",
    "holder-11",
]
"""What a span means. The terminal chooses color and weight; the text alone must be sufficient."""

HOLDER_STYLES: Final[Sequence[Style]] = (
    "holder-0",
    "holder-1",
    "holder-2",
    "holder-3",
    "holder-4",
    "holder-5",
    "holder-6",
    "holder-7",
    "holder-8",
    "holder-9",
    "holder-10",
    "holder-11",
)


class Span(NamedTuple):
    """A text in one style."""

    text: str
    style: Style = ""


Line: TypeAlias = tuple[Span, ...]


def sanitize(text: str) -> str:
    """Return the text with a `?` for each character that could control the terminal.

    Args:
        text: text from the cluster.
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def plain_text(line: Line) -> str:
    """Return the text of a line, without blanks at its end.

    Args:
        line: the line.
    """
    return "".join(span.text for span in line).rstrip(" ")


def clip(line: Line, width: int) -> Line:
    """Return the part of a line that fits.

    Args:
        line: the line.
        width: maximum number of characters.
    """
    kept = []
    for span in line:
        if width <= 0:
            break
        kept.append(Span(span.text[:width], span.style))
        width -= len(span.text)
    return tuple(kept)


def cut_middle(text: str, width: int) -> str:
    """Return a text that fits. A cut text keeps its beginning and its end, because names differ in either.

    Args:
        text: the text.
        width: maximum number of characters.
    """
    if len(text) <= width:
        return text
    kept = max(0, width - 2)
    return (text[: kept - kept // 2] + ".." + text[len(text) - kept // 2 :])[:width]


def pad(line: Line, width: int) -> Line:
    """Return a line of exactly this width.

    Args:
        line: the line.
        width: number of characters.
    """
    line = clip(line, width)
    missing = width - sum(len(span.text) for span in line)
    return (*line, Span(" " * missing)) if missing else line


def wrapped(text: str, width: int, style: Style = "", indent: int = 0, hanging: int = 4) -> Iterator[Line]:
    """Yield the lines of a text, broken after blanks and commas.

    Args:
        text: the text.
        width: width of the lines in characters.
        style: the style of all lines.
        indent: blanks before the first line.
        hanging: blanks before all other lines.
    """
    for part in wrap(sanitize(text), width, indent, hanging):
        # A word that is longer than the line continues on the next line, because a screen has no place beyond.
        for start in range(0, max(1, len(part)), width):
            yield (Span(part[start : start + width], style),)


def flow(pieces: Iterable[Line], width: int, first: Line, hanging: int, gap: int = 2) -> Iterator[Line]:
    """Yield lines that contain pieces side by side. A piece is not broken.

    Args:
        pieces: the pieces.
        width: width of the lines in characters.
        first: the beginning of the first line.
        hanging: blanks before all other lines.
        gap: blanks between pieces.
    """
    line, used, is_empty = list(first), _width(first), True
    for piece in pieces:
        wanted = _width(piece) + (0 if is_empty else gap)
        fresh = is_empty and used <= hanging
        if used + wanted > width and not fresh:
            yield tuple(line)
            line, used, is_empty = [Span(" " * hanging)], hanging, True
            wanted = _width(piece)
        if not is_empty:
            line.append(Span(" " * gap))
        line += piece
        used, is_empty = used + wanted, False
    yield tuple(line)


def _width(line: Iterable[Span]) -> int:
    return sum(len(span.text) for span in line)


def shorten(line: Line, width: int) -> Line:
    """Return a line that fits. If its end is cut, the line ends with `...`.

    Args:
        line: the line.
        width: maximum number of characters.
    """
    return line if _width(line) <= width else (*clip(line, width - 3), Span("..."))
