"""However soon the search asks for proofs, it finds the same allocation, or none."""

import pytest

from dradriver.allocator import search
from tests.conformance.brute_force import first_allocation
from tests.properties.test_search_agrees_with_brute_force import as_triples, searched, tight


@pytest.mark.parametrize("patience", [-1, 1, 5])
def test_the_first_allocation_is_found_with_proofs(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_PATIENCE", patience)
    for seed in range(1000, 1150):
        world, wanted = tight(seed)
        expected = first_allocation(wanted, world)
        assert searched(wanted, world) == (None if expected is None else as_triples(expected, wanted)), seed
