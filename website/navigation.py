"""The navigation of the site: patterns in it become the pages that they match."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

__all__ = ["expand_patterns", "list_pages"]


def expand_patterns(entries: Sequence[object], pages: Iterable[str]) -> list[object]:
    """Return navigation entries in which each pattern is replaced by the matching pages, in alphabetical order.

    A section without pages is left out.

    Args:
        entries: `nav` of mkdocs.yml: pages, patterns such as `tutorial/*.md`, or sections `{TITLE: entries}`.
        pages: all pages of the site. A pattern does not repeat a page that an entry names or
            that an earlier pattern matches.
    """
    named = {each for each in list_pages(entries) if "*" not in each}
    return _expand(entries, sorted(set(pages) - named))


def list_pages(entries: object) -> list[str]:
    """Return the pages and patterns of navigation entries."""
    match entries:
        case str():
            return [entries]
        case dict():
            return [page for each in entries.values() for page in list_pages(each)]
        case list():
            return [page for each in entries for page in list_pages(each)]
        case _:
            return []


def _expand(entries: Sequence[object], pages: list[str]) -> list[object]:
    expanded: list[object] = []
    for entry in entries:
        match entry:
            case str() if "*" in entry:
                matching = [page for page in pages if fnmatchcase(page, entry)]
                expanded += matching
                pages[:] = [page for page in pages if page not in matching]
            case dict():
                sections = {
                    title: _expand(each, pages) if isinstance(each, list) else each
                    for title, each in entry.items()
                }
                expanded += [{title: each} for title, each in sections.items() if each]
            case _:
                expanded.append(entry)
    return expanded
