"""Whatever the search knows of what can't be, it finds the same allocation, or none."""

import pytest

from dradriver.allocator.search import search
from dradriver.allocator.search.bounds import Bounds
from tests.conformance.brute_force import first_allocation
from tests.properties.test_search_agrees_with_brute_force import as_triples, searched, tight
from tests.unit.allocator.worlds import DRIVER, claim, devices, request, slice_, try_on


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


def test_a_dead_end_is_one_for_the_value_that_was_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways round `a` and `b` are taken; which was the first decides what the third request gets."""
    monkeypatch.setattr(Bounds, "broken", lambda _bounds, _request: None)
    racks = {"a": "v", "b": "w", "c": "w", "d": "v"}
    gpus = [
        {"name": name, "attributes": {"rack": {"string": rack}, "name": {"string": name}}}
        for name, rack in racks.items()
    ]

    def one_of(names: str) -> str:
        return f"device.attributes['{DRIVER}'].name in {list(names)}"

    requests = [request(names, one_of(names)) for names in ("ab", "abd", "c")]
    same = {"requests": ["ab", "c"], "matchAttribute": f"{DRIVER}/rack"}
    assert devices(try_on([slice_("s", *gpus)], claim(*requests, constraints=[same]))) == ["b", "a", "c"]
