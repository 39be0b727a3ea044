"""Whatever the search knows of what can't be, it finds the same allocation, or none."""

import pytest

from dradriver.allocator import search
from dradriver.allocator.bounds import Bounds
from tests.conformance.brute_force import first_allocation
from tests.properties.test_search_agrees_with_brute_force import as_triples, searched, tight


def finds_the_first(seeds: range) -> None:
    for seed in seeds:
        world, wanted = tight(seed)
        expected = first_allocation(wanted, world)
        assert searched(wanted, world) == (None if expected is None else as_triples(expected, wanted)), seed


@pytest.mark.parametrize("patience", [-1, 1, 5])
def test_the_first_allocation_is_found_with_proofs(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon the search asks for them."""
    monkeypatch.setattr(search, "_PATIENCE", patience)
    finds_the_first(range(1000, 1150))


def test_the_first_allocation_is_found_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of dead ends, and of choices that come to the same thing, is right by itself."""
    monkeypatch.setattr(Bounds, "broken", lambda _bounds, _request: None)
    monkeypatch.setattr(search, "_PATIENCE", 10**9)
    finds_the_first(range(2000, 2150))
