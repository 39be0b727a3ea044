"""Links of pages lead to pages of the site, and the check of the built site finds broken ones."""

from pathlib import Path

import pytest

from website.built_site import find_problems
from website.repository_links import find_linked_files, render_file, repository_path, rewrite_links, site_path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "README.md": "[guide](docs/guide.md) [code](src/code.py)",
        "docs/guide.md": "[read me](../README.md#top) [`tpu`](../examples/tpu)",
        "docs/sub/README.md": "index",
        "src/code.py": "print()\n",
        "examples/tpu/README.md": "[x](x.yaml)",
        "examples/tpu/x.yaml": "a: 1\n",
        "examples/bare/y.yaml": "a: 1\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("docs/guide.md", "guide.md"),
        ("docs/sub", "sub/README.md"),
        ("README.md", "repository/README.md"),
        ("src/code.py", "repository/src/code.py.md"),
        ("examples/tpu", "repository/examples/tpu/README.md"),
    ],
)
def test_a_file_of_the_repository_has_a_page(repository: Path, path: str, page: str) -> None:
    assert site_path(path, repository) == page


@pytest.mark.parametrize("path", ["docs/guide.md", "README.md", "src/code.py", "examples/tpu/README.md"])
def test_a_page_has_the_file_that_it_shows(repository: Path, path: str) -> None:
    assert repository_path(site_path(path, repository)) == path


def test_links_are_rewritten_from_a_page_and_from_a_file_outside_of_docs(repository: Path) -> None:
    guide = (repository / "docs/guide.md").read_text()
    readme = (repository / "README.md").read_text()
    assert rewrite_links(guide, "guide.md", repository) == (
        "[read me](repository/README.md#top) [`tpu`](repository/examples/tpu/README.md)"
    )
    assert rewrite_links(readme, "repository/README.md", repository) == (
        "[guide](../guide.md) [code](src/code.py.md)"
    )


@pytest.mark.parametrize(
    "text",
    ["[a](https://example.com/x)", "[a](#b)", "```\n[a](../README.md)\n```\n", "[a]: https://example.com/\n"],
)
def test_other_links_and_code_stay(repository: Path, text: str) -> None:
    assert rewrite_links(text, "guide.md", repository) == text


def test_a_definition_of_a_link_is_rewritten(repository: Path) -> None:
    assert rewrite_links("[a]: ../README.md\n", "guide.md", repository) == "[a]: repository/README.md\n"


def test_files_that_linked_files_link_to_are_found_too(repository: Path) -> None:
    assert find_linked_files(["docs/guide.md"], repository) == [
        "README.md",
        "examples/tpu",
        "examples/tpu/x.yaml",
        "src/code.py",
    ]


def test_code_and_folders_become_pages(repository: Path) -> None:
    assert "````python\nprint()\n````" in render_file("src/code.py", repository)
    assert render_file("examples/tpu", repository) == "[x](x.yaml)"
    assert "- `y.yaml`" in render_file("examples/bare", repository)


def test_a_complete_site_has_no_problem(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<h1 id="a">A</h1><a href="b.html#c">b</a><a href="#a">a</a>')
    (tmp_path / "b.html").write_text(
        '<p id="c"><a href="https://example.com/">out</a><script src="s.js"></script>'
    )
    (tmp_path / "s.js").write_text("")
    assert list(find_problems(tmp_path)) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="gone.html">x</a>', "there is no such file"),
        ('<a href="#gone">x</a>', "the page has no such anchor"),
        ('<a href="index.html#gone">x</a>', "the page has no such anchor"),
        ('<img src="gone.svg">', "there is no such file"),
        ('<script src="https://example.com/x.js"></script>', "loads https://example.com/x.js from elsewhere"),
        ('<link rel="stylesheet" href="//example.com/x.css">', "loads //example.com/x.css from elsewhere"),
    ],
)
def test_a_problem_of_the_site_is_found(tmp_path: Path, html: str, problem: str) -> None:
    (tmp_path / "index.html").write_text(html)
    assert [each for each in find_problems(tmp_path) if problem in each]
