"""Check the built site: each link has a target, and no page loads anything from elsewhere.

MkDocs checks the links of Markdown. This check also sees the links of generated HTML.

    python -m website.built_site FOLDER
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["find_problems"]

_LOADED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""The elements whose targets a browser loads without a click."""


@dataclass
class _Page(HTMLParser):
    """The anchors and links of one page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in _LOADED and _LOADED[tag] in values:
            self.loaded.append(values[_LOADED[tag]])


def find_problems(site: Path) -> Iterator[str]:
    """Yield each link without a target, and each file that a page loads from elsewhere.

    Args:
        site: the folder of the built site.
    """
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path == site / "404.html":
            continue  # its links begin with /, because a server sends it for any path
        where = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{where}: loads {address} from elsewhere"
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where}: {address}: there is no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {address}: the page has no such anchor"


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def main() -> int:
    """Print the problems of the site in the folder that the first argument names."""
    site = Path(sys.argv[1]).resolve()
    problems = list(find_problems(site))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(list(site.rglob('*.html')))} pages, every link has a target")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
