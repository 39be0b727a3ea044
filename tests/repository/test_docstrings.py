"""The check of docstrings finds what it is for."""

from pathlib import Path

import pytest

from tests.repository.docstrings import problems, read_modules

DOOR = 'from room.inner import {name}\n\n__all__ = ["{name}"]\n'


def check(folder: Path, name: str, inner: str) -> list[str]:
    room = folder / "room"
    room.mkdir()
    (room / "__init__.py").write_text(DOOR.format(name=name))
    (room / "inner.py").write_text(inner)
    return [line.partition(": ")[2] for line in problems(read_modules(room))]


def test_a_function_of_a_front_door_describes_its_arguments_and_its_result(tmp_path: Path) -> None:
    found = check(tmp_path, "load", 'def load(path: str) -> int:\n    """Load it."""\n')
    assert found == ["load has no section Args", "load returns int, and the docstring does not describe it"]


def test_so_does_a_public_method_of_its_class(tmp_path: Path) -> None:
    text = (
        'class Store:\n    def _a(self, x: int): ...\n    def put(self, x: int) -> None:\n        """Put."""\n'
    )
    assert check(tmp_path, "Store", text) == ["Store.put has no section Args"]


@pytest.mark.parametrize(
    "text",
    [
        'def load(path: str) -> int:\n    """Return it.\n\n    Args:\n        path: a.\n    """\n',
        'def load() -> int:\n    """Load.\n\n    Returns:\n        b.\n    """\n',
        'def load() -> None:\n    """Load it."""\n',
        '@click.command()\ndef load(path: str) -> None:\n    """Load it."""\n',
        'class load:\n    @property\n    def size(self) -> int:\n        """The size."""\n',
    ],
)
def test_a_complete_docstring_is_accepted(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, "load", text) == []


def test_a_method_that_overrides_a_documented_one_needs_no_sections(tmp_path: Path) -> None:
    text = (
        "class Base:\n    def put(self, x: int) -> None: ...\n"
        'class Store(Base):\n    def put(self, x: int) -> None:\n        """Put."""\n'
    )
    assert check(tmp_path, "Store", text) == []


def test_a_function_that_no_front_door_exports_is_free(tmp_path: Path) -> None:
    assert check(tmp_path, "VERSION", "VERSION = 1\ndef load(path: str) -> int: ...\n") == []
