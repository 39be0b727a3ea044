"""Links between pages and other files of the repository, as links between pages of the site.

The pages are written for a code host: they link to files by relative paths, also outside of `docs`. The site
has a page for each such file, below `repository/`, so that it is complete without a network.
"""

import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

__all__ = ["find_linked_files", "render_file", "repository_path", "rewrite_links", "site_path"]

DOCS: Final = "docs/"
OTHER: Final = "repository/"
_FENCE: Final = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(\]\(|^\[[^\]\n]+\]: +)([^)\s#:]+)(#[^)\s]*)?", re.MULTILINE)
_LEXERS: Final = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}


def site_path(path: str, root: Path) -> str:
    """Return the page of the site for a file or folder of the repository.

    Args:
        path: relative to the root of the repository, such as `docs/cli.md`, `examples/tpu` or `pyproject.toml`.
        root: the root of the repository.
    """
    if path.startswith(DOCS):
        folder = (root / path).is_dir()
        return path.removeprefix(DOCS) + ("/README.md" if folder else "")
    if (root / path).is_dir():
        return f"{OTHER}{path}/README.md"
    return OTHER + (path if path.endswith((".md", ".svg", ".png")) else f"{path}.md")


def repository_path(page: str) -> str:
    """Return the file of the repository that a page of the site shows. It is the inverse of `site_path`."""
    if not page.startswith(OTHER):
        return DOCS + page
    path = page.removeprefix(OTHER)
    stem = path.removesuffix(".md")
    return stem if posixpath.splitext(stem)[1] else path


def rewrite_links(text: str, page: str, root: Path) -> str:
    """Return a page's text with links to pages of the site in place of links to files of the repository.

    Args:
        text: Markdown. Fenced code is not changed.
        page: the path of the page in the site.
        root: the root of the repository.
    """
    folder = posixpath.dirname(repository_path(page))

    def rewrite(path: str) -> str:
        target = site_path(posixpath.normpath(posixpath.join(folder, path)), root)
        return posixpath.relpath(target, posixpath.dirname(page) or ".")

    return _replace_links(text, rewrite)


def find_linked_files(pages: Iterable[str], root: Path) -> list[str]:
    """Return the files and folders outside of `docs` that the pages link to, directly or through each other.

    Args:
        pages: paths of Markdown files, relative to the root of the repository.
        root: the root of the repository.
    """
    found: dict[str, None] = {}
    queue = list(pages)
    while queue:
        path = queue.pop()
        file = root / path
        readable = file / "README.md" if file.is_dir() else file
        if readable.suffix != ".md" or not readable.exists():
            continue
        folder = path if file.is_dir() else posixpath.dirname(path)

        def collect(link: str, folder: str = folder) -> str:
            target = posixpath.normpath(posixpath.join(folder, link))
            if not target.startswith((DOCS, "..")) and target not in found and (root / target).exists():
                found[target] = None
                queue.append(target)
            return link

        _replace_links(readable.read_text(encoding="utf-8"), collect)
    return sorted(found)


def render_file(path: str, root: Path) -> str:
    """Return the Markdown of the page for a file or folder: its text, its code, or the list of its files."""
    file = root / path
    if file.is_dir():
        readme = file / "README.md"
        if readme.exists():
            return readme.read_text(encoding="utf-8")
        names = sorted(each.name for each in file.iterdir() if not each.name.startswith((".", "__pycache__")))
        return f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    lexer = _LEXERS.get(file.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n````{lexer}\n{text}````\n"


def _replace_links(text: str, replace: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += (_replace_in_prose(text[end : fence.start()], replace), fence.group())
        end = fence.end()
    parts.append(_replace_in_prose(text[end:], replace))
    return "".join(parts)


def _replace_in_prose(text: str, replace: Callable[[str], str]) -> str:
    return _LINK.sub(lambda match: match[1] + replace(match[2]) + (match[3] or ""), text)
