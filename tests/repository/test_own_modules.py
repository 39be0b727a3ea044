"""The import contract of own modules finds imports from outside of a room, and names of missing modules."""

import pytest
from grimp import ImportGraph

from tests.repository.own_modules import OwnModules

MODULES = ("a", "a.room", "a.room.front", "a.room.own", "a.room.own.part", "a.other")


def check(importer: str, imported: str, rooms: str = "a.room: own") -> list[tuple[str, str]]:
    graph = ImportGraph()
    for module in MODULES:
        graph.add_module(module)
    graph.add_import(importer=importer, imported=imported)
    contract = OwnModules("own modules", {}, {"type": "own_modules", "rooms": [rooms]})
    result = contract.check(graph, verbose=False)
    illegal: list[tuple[str, str]] = result.metadata["illegal"]
    assert result.kept is (not illegal)
    return illegal


@pytest.mark.parametrize("imported", ["a.room.own", "a.room.own.part"])
def test_an_import_from_outside_is_illegal(imported: str) -> None:
    assert check("a.other", imported) == [("a.other", imported)]
    assert check("a", imported) == [("a", imported)]


@pytest.mark.parametrize(
    ("importer", "imported"), [("a.room", "a.room.own"), ("a.room.front", "a.room.own.part")]
)
def test_an_import_in_the_room_is_legal(importer: str, imported: str) -> None:
    assert check(importer, imported) == []


def test_an_import_of_the_front_is_legal() -> None:
    assert check("a.other", "a.room.front") == []


def test_a_module_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"there is no module a\.room\.gone"):
        check("a", "a.other", "a.room: own, gone")
