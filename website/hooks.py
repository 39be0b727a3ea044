"""MkDocs calls these functions while it builds the site (`hooks` in mkdocs.yml)."""

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.api_pages import list_api_pages
from website.navigation import expand_patterns
from website.repository_links import find_linked_files, render_file, repository_path, rewrite_links, site_path

ROOT: Final = Path(__file__).parents[1]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the API and of linked files of the repository, and complete the navigation."""
    for path, text in list_api_pages().items():
        files.append(File.generated(config, path, content=text))
    documents = [repository_path(each.src_uri) for each in files.documentation_pages()]
    linked = {site_path(path, ROOT): path for path in find_linked_files(documents, ROOT)}
    for target, path in linked.items():
        if target.endswith(".md"):
            files.append(File.generated(config, target, content=render_file(path, ROOT)))
        else:
            files.append(File.generated(config, target, abs_src_path=str(ROOT / path)))
    if config.nav:
        config.nav = expand_patterns(config.nav, [each.src_uri for each in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point the links of a page to pages of the site."""
    return rewrite_links(markdown, page.file.src_uri, ROOT)
