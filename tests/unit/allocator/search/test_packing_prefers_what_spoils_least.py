"""The costs of the order `packed`: what a device takes, and what its choice makes unavailable."""

from dradriver.allocator.search.packing import CostTable
from dradriver.model.resource.counters import FULL_SIZE

HOSTS = 16
BLOCKS = [range(start, start + size) for size in (1, 4, 16) for start in range(0, HOSTS, size)]
"""A board of 16 hosts with its slices of one, four and all hosts."""
BOARD = CostTable([4] * HOSTS, [tuple((host, 4) for host in block) for block in BLOCKS], [() for _ in BLOCKS])
ONE, FOUR = FULL_SIZE // 16, FULL_SIZE // 4


def costs(*held: int) -> list[tuple[int, int, int, int]]:
    """Return the costs while claims hold these hosts."""
    left = [0 if host in held else 4 for host in range(HOSTS)]
    free = sum(1 << number for number, block in enumerate(BLOCKS) if not set(block) & set(held))
    return BOARD.costs(left, (), free)


def test_a_size_is_the_part_of_all_counters_of_the_component() -> None:
    assert [cost[0] for cost in costs()] == [ONE] * 16 + [FOUR] * 4 + [FULL_SIZE]


def test_a_choice_spoils_itself_and_the_devices_that_overlap_it() -> None:
    size, largest, spoiled, _ = costs()[0]
    assert (size, largest, spoiled) == (ONE, FULL_SIZE, ONE + FOUR + FULL_SIZE)


def test_a_slice_of_a_divided_block_is_preferred() -> None:
    found = costs(5)
    assert min(set(range(16)) - {5}, key=lambda host: (found[host], host)) == 4
    assert found[4][1:3] == (ONE, ONE)


def test_among_equal_devices_the_costs_are_equal() -> None:
    """So the first one is taken, and the last blocks stay empty."""
    assert len({costs(5)[host] for host in (0, 8, 15)}) == 1
