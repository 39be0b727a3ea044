"""The check of words finds what it is for, and knows the glossary's list."""

import re
from pathlib import Path

import pytest

from tests.repository import words


def write(folder: Path, **modules: str) -> list[Path]:
    paths = []
    for name, text in modules.items():
        path = folder / f"{name}.py"
        path.write_text(text)
        paths.append(path)
    return paths


def test_a_class_name_that_occurs_twice_is_reported_with_both_places(tmp_path: Path) -> None:
    files = write(tmp_path, one="class Plan: ...\n", two="\nclass Plan: ...\n")
    assert words.problems({"dradriver": files}, ()) == [
        f"{tmp_path}/one.py:1: class Plan exists also at {tmp_path}/two.py:2"
    ]


def test_two_distributions_may_use_one_class_name(tmp_path: Path) -> None:
    (one,) = write(tmp_path, one="class Card: ...\n")
    (two,) = write(tmp_path, two="class Card: ...\n")
    assert words.problems({"a": [one], "b": [two]}, ()) == []


def test_a_public_name_of_dradriver_is_reserved(tmp_path: Path) -> None:
    files = write(tmp_path, one="class Device: ...\n")
    (line,) = words.problems({"drivers/fpga": files}, ["Device"])
    assert "public class of dradriver" in line


@pytest.mark.parametrize(
    "code",
    [
        "class PlainWish: ...",
        "def find_wishes(): ...",
        "async def wish(): ...",
        "def find(wish): ...",
        "self.x_wish = 1",
        "def find():\n    wish = 1",
    ],
)
def test_a_retired_word_is_reported_with_its_replacement(tmp_path: Path, code: str) -> None:
    (line,) = words.problems({"dradriver": write(tmp_path, one=code)}, ())
    assert "claim shape" in line


def test_a_word_inside_another_word_is_not_retired(tmp_path: Path) -> None:
    assert words.problems({"dradriver": write(tmp_path, tasks="class TaskStockpile: ...")}, ()) == []


def test_the_glossary_lists_the_retired_words() -> None:
    glossary = (words.ROOT / "docs/glossary.md").read_text().partition("## Retired words")[2]
    listed = dict(re.findall(r"^\| ([a-z]+) \| ([a-z, ]+) \|$", glossary, re.MULTILINE)[1:])
    assert listed == words.RETIRED


def test_each_term_of_the_glossary_links_to_a_page_that_uses_it() -> None:
    docs = words.ROOT / "docs"
    terms = (docs / "glossary.md").read_text().partition("## Retired words")[0]
    rows = re.findall(r"^\| ([^|]+) \| .+ \| \[[^\]]+\]\(([^)]+)\) \|$", terms, re.MULTILINE)
    assert len(rows) == sum(line.startswith("| ") for line in terms.splitlines()) - terms.count("| term |")
    for term, target in rows:
        text = (docs / target).resolve().read_text().lower().replace("_", " ")
        assert any(word.split()[0].lower() in text for word in term.split(",")), (term, target)
