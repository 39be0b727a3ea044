"""The README is correct: its code is the example, its commands and links exist, its counts are current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_the_driver_in_the_readme_is_the_example() -> None:
    blocks = re.findall(r"<!-- (\S+) -->\n```python\n(.*?)```\n", README, re.DOTALL)
    assert blocks
    for path, block in blocks:
        assert (ROOT / path).read_text(encoding="utf-8") == block


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target for page in PAGES for target in re.findall(r"make ([a-z]+)", page.read_text(encoding="utf-8"))
    }
    assert named & {"demo", "test"} == {"demo", "test"}
    assert {name for name in named if name in {"demo", "test", "check", "interop", "bench", "proto"}} <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_target_of_every_relative_link_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("suite", "sentence"),
    [
        ("apiserver/test_apiserver_real.py", r"One suite of (\d+) cases"),
        ("kubelet/test_kubelet_real.py", r"suite of (\d+) cases runs against the embedded kubelet"),
    ],
)
def test_the_readme_counts_the_cases_of_the_suites(suite: str, sentence: str) -> None:
    command = (
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "e2e",
        f"tests/conformance/{suite}",
    )
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    stated = re.search(sentence, README)
    assert stated is not None
    assert int(stated[1]) == sum("::" in line for line in listed.splitlines())
