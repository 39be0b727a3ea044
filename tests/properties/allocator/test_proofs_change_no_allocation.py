"""With or without proofs and bounds, the search finds the same allocation, or none."""

import functools

import pytest

from dradriver.allocator.search import search
from dradriver.allocator.search.bounds import Bounds
from tests.conformance.allocator.brute_force import first_allocation
from tests.properties.allocator.test_search_agrees_with_brute_force import as_triples, run_search, tight
from tests.unit.allocator.worlds import DRIVER, claim, devices, request, slice_, try_on


@functools.cache  # several tests use the same seeds
def expected_allocation(seed: int) -> list[tuple[str, str, tuple[str, str, str]]] | None:
    world, wanted = tight(seed)
    expected = first_allocation(wanted, world)
    return None if expected is None else as_triples(expected, wanted)


def finds_the_first(seeds: range) -> None:
    for seed in seeds:
        world, wanted = tight(seed)
        assert run_search(wanted, world) == expected_allocation(seed), seed


@pytest.mark.parametrize("failures", [-1, 1, 5])
def test_the_first_allocation_is_found_with_proofs(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proofs may start at any step."""
    monkeypatch.setattr(search, "_MAX_FAILURES", failures)
    finds_the_first(range(1000, 1150))


def test_the_first_allocation_is_found_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remembered dead ends and equal choices are correct without bounds."""
    monkeypatch.setattr(Bounds, "find_violation", lambda _bounds, _request: None)
    monkeypatch.setattr(search, "_MAX_FAILURES", 10**9)
    finds_the_first(range(2000, 2150))


def test_a_dead_end_depends_on_the_bound_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both orders take `a` and `b`; the first one decides which devices the third request can get."""
    monkeypatch.setattr(Bounds, "find_violation", lambda _bounds, _request: None)
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
