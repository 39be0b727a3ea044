"""docs/classic.md has each normative sentence of KEP-3063, with a test or the reason why it is moot."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/classic.md"
TITLE: Final = "## Each sentence of KEP-3063"
NAMED: Final = re.compile(r"`([\w./-]+\.py)::(\w+)`")
MOOT: Final = "Moot: "
SECTIONS: Final = (
    *("Summary, motivation and proposal", "ResourceClass extension", "ResourceClaim extension"),
    *("ResourceClaimStatus extension", "ResourceHandle extensions", "PodSchedulingContext"),
    *("Coordinating resource allocation through the scheduler", "Resource allocation and usage flow"),
    *("Scheduled pods with unallocated or unreserved claims", "Cluster Autoscaler"),
    *("Implementing a plugin for node resources", "Implementing optional resources"),
    *("Test plan and graduation criteria", "Production readiness"),
)
"""The sections of the KEP that have normative sentences."""


class Row(NamedTuple):
    """A row of the table: the quoted sentence, and its tests or the reason."""

    sentence: str
    cell: str


def rows(text: str) -> list[Row]:
    """Return the rows of the tables below the title."""
    section = text.partition(f"\n{TITLE}\n")[2].partition("\n## ")[0]
    found = re.findall(r'^\| "(.+)" \| (.+) \|$', section, re.MULTILINE)
    assert len(found) == sum(line.startswith('| "') for line in section.splitlines())
    return [Row(*each) for each in found]


def problems(table: list[Row], root: Path = ROOT) -> Iterator[str]:
    """Yield a line for each row without a reason whose tests are missing."""
    for row in table:
        named = NAMED.findall(row.cell)
        if not named and not row.cell.startswith(MOOT):
            yield f"{row.sentence}: neither a test nor a reason"
        for path, name in named:
            if name not in find_tests(root / path):
                yield f"{row.sentence}: there is no test {path}::{name}"


@cache
def find_tests(path: Path) -> frozenset[str]:
    """Return the names of all test functions of a file, also those in classes; empty if there is no file."""
    if not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.walk(ast.parse(path.read_text()))
    names = (each.name for each in tree if isinstance(each, functions))
    return frozenset(name for name in names if name.startswith("test_"))


TABLE: Final = rows(PAGE.read_text())


def test_each_sentence_has_a_test_or_a_reason() -> None:
    assert list(problems(TABLE)) == []


def test_the_table_has_all_sections_of_the_kep() -> None:
    text = PAGE.read_text().partition(TITLE)[2]
    assert tuple(re.findall(r"^### (.+)$", text, re.MULTILINE)) == SECTIONS
    assert len(TABLE) >= 150


def test_no_sentence_is_there_twice() -> None:
    assert len({row.sentence for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("Moot: Kubernetes has no such gate", None),
        ("`tests/test_a.py::test_there`", None),
        ("`tests/test_a.py::test_in_class`", None),
        ("`tests/test_a.py::test_gone`", "a sentence: there is no test tests/test_a.py::test_gone"),
        ("`tests/test_a.py::helper`", "a sentence: there is no test tests/test_a.py::helper"),
        ("`tests/test_b.py::test_there`", "a sentence: there is no test tests/test_b.py::test_there"),
        ("somewhere", "a sentence: neither a test nor a reason"),
    ],
)
def test_a_test_that_does_not_exist_is_reported(tmp_path: Path, cell: str, problem: str | None) -> None:
    (tmp_path / "tests").mkdir()
    text = "def helper(): ...\nasync def test_there(): ...\nclass TestA:\n    def test_in_class(self): ...\n"
    (tmp_path / "tests/test_a.py").write_text(text)
    assert list(problems([Row("a sentence", cell)], tmp_path)) == ([problem] if problem else [])
