"""A page for contributors names only files and folders that exist."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")
BASES: Final = (
    ROOT,
    ROOT / "dradriver",
    ROOT / "dradriver/allocator",
    ROOT / "tests",
    ROOT / "drivers/gpu_mig/dradriver_gpu_mig",
)
NAMED: Final = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?)`")
GENERATED: Final = re.compile(r"^(?:/|var/|\.venv|[\w.-]+\.(?:com|io)/)")
"""Paths on a node, and names of resources."""


def find_missing(text: str, bases: tuple[Path, ...] = BASES) -> list[str]:
    """Return the paths in backticks that exist below none of the folders, with or without `.py`."""
    named = (path for path in NAMED.findall(text) if not GENERATED.match(path))
    return [
        path
        for path in named
        if not any((base / path).exists() or (base / f"{path}.py").exists() for base in bases)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_each_path_in_backticks_exists(page: str) -> None:
    assert find_missing((ROOT / page).read_text()) == []


def test_a_path_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/there.py").touch()
    text = "`room/there.py`, `room/there`, `room/gone.py` and `example.com/gpu`"
    assert find_missing(text, (tmp_path,)) == ["room/gone.py"]
