"""Each page of docs is in the navigation of mkdocs.yml, and each entry of the navigation has a page."""

import re
from pathlib import Path

import yaml

from website.navigation import expand_patterns, list_pages
from website.repository_links import repository_path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md"))


def navigation() -> list[object]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(re.sub(r"!!python/\S+", "", text))["nav"]
    assert isinstance(nav, list)
    return nav


def test_each_page_is_in_the_navigation_once() -> None:
    named = list_pages(expand_patterns(navigation(), PAGES))
    missing = [page for page in PAGES if page not in named]
    assert missing == [], "add the pages to `nav` in mkdocs.yml"
    assert sorted(named) == sorted(set(named))


def test_each_entry_of_the_navigation_has_a_page() -> None:
    named = list_pages(expand_patterns(navigation(), PAGES))
    written = [page for page in named if not page.startswith("reference/api/")]
    assert [page for page in written if not (ROOT / repository_path(page)).exists()] == []


def test_a_pattern_stands_for_the_pages_that_no_entry_names() -> None:
    nav = ["index.md", {"Tutorial": ["tutorial/2.md", "tutorial/*.md"]}, "none/*.md"]
    pages = ["tutorial/3.md", "tutorial/2.md", "tutorial/1.md", "index.md", "other.md"]
    assert expand_patterns(nav, pages) == [
        "index.md",
        {"Tutorial": ["tutorial/2.md", "tutorial/1.md", "tutorial/3.md"]},
    ]


def test_the_first_of_two_patterns_has_a_page_that_both_match() -> None:
    nav = [{"Tutorial": ["tutorial/index*.md", "tutorial/*.md"]}]
    assert expand_patterns(nav, ["tutorial/1.md", "tutorial/index.md"]) == [
        {"Tutorial": ["tutorial/index.md", "tutorial/1.md"]}
    ]


def test_a_section_without_pages_is_left_out() -> None:
    assert expand_patterns(["index.md", {"Tutorial": ["tutorial/*.md"]}], ["index.md"]) == ["index.md"]
