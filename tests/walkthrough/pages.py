"""Finds the commands and the files that a page shows, in their order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PAGES", "Command", "File", "Heading", "read_page"]

_FOLDER: Final = Path(__file__).parents[2] / "docs" / "tutorial"
PAGES: Final = {path.name: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.md"))}
"""The pages of the tutorial, by name of the file."""

_PART: Final = re.compile(
    r"^(?P<level>##+) (?P<heading>[^\n]+)$"
    r"|^(?:<!-- (?P<path>\S+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the lines that it prints.

    Attributes:
        line: the line of the page.
        text: the command, without its prompt.
        output: the lines that the page shows below it. None: the page shows no output.
    """

    line: int
    text: str
    output: str | None


@dataclass(frozen=True, slots=True)
class File:
    """A file of the project with the content that the page shows."""

    line: int
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section of the page."""

    title: str


def read_page(page: str) -> Iterator[Command | File | Heading]:
    """Yield the commands, files and headings of a page."""
    for match in _PART.finditer(page):
        line = page.count("\n", 0, match.start("text") if match["text"] is not None else match.start())
        if match["heading"]:
            yield Heading(match["heading"])
        elif match["path"]:
            yield File(line, match["path"], match["text"])
        elif match["language"] == "console":
            yield from _commands(match["text"], line + 1)


def _commands(text: str, line: int) -> Iterator[Command]:
    for block in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        at = line + text.count("\n", 0, block.start())
        yield Command(at, re.sub(r"\\\n\s*", "", block[1]), block[2] or None)
