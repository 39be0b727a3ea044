"""The costs of the order `packed` equal their definition, which tries every pair of devices."""

from dataclasses import dataclass
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from dradriver.allocator.search.packing import FULL_DEVICE_COST, Cost, CostTable, compute_costs
from dradriver.model.resource.counters import FULL_SIZE

Row = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Component:
    """A component of devices in one state."""

    amounts: list[int]
    needs: list[Row]
    groups: list[Row]
    left: list[int]
    groups_left: list[int]
    free: int


def component(seed: int) -> Component:
    """Return a component with up to three counters, two counter sets and six devices."""
    draw = Random(seed)
    amounts = [draw.randint(0, 4) for _ in range(draw.randint(1, 3))]
    devices = range(draw.randint(0, 6))
    needs = [_row(draw, len(amounts), 0, 4) for _ in devices]
    groups = [_row(draw, 2, 0, 7) for _ in devices]
    left = [draw.randint(-1, amount) for amount in amounts]
    groups_left = [draw.choice([-1, 1, 3, 6]) for _ in range(2)]
    return Component(amounts, needs, groups, left, groups_left, draw.getrandbits(len(devices) or 1))


def _row(draw: Random, length: int, low: int, high: int) -> Row:
    return tuple((at, draw.randint(low, high)) for at in range(length) if draw.random() < 0.7)


def defined_costs(world: Component) -> list[Cost]:
    """Return the costs by their definition."""
    sizes = [
        sum(nano * FULL_SIZE // world.amounts[at] for at, nano in need if world.amounts[at])
        // len(world.amounts)
        for need in world.needs
    ]
    devices = range(len(world.needs))
    fitting = [n for n in devices if world.free >> n & 1 and fits(world, n, (), ())]
    results = []
    for chosen in devices:
        lost = [
            sizes[other]
            for other in fitting
            if not fits(world, other, world.needs[chosen], world.groups[chosen])
        ]
        results.append((sizes[chosen], max(lost, default=0), sum(lost), FULL_SIZE))
    return results


def fits(world: Component, device: int, taken: Row, groups: Row) -> bool:
    """Return whether a device fits beside one that takes these counters and has these groups."""
    amounts, own_groups = dict(taken), dict(groups)
    return all(world.left[at] - amounts.get(at, 0) >= nano for at, nano in world.needs[device]) and all(
        world.groups_left[at] & own_groups.get(at, -1) & bits for at, bits in world.groups[device]
    )


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_costs_equal_a_trial_of_every_pair(seed: int) -> None:
    world = component(seed)
    expected = defined_costs(world)
    event(f"spoils: {any(cost[2] for cost in expected)}")
    shape = world.amounts, world.needs, world.groups
    state = world.left, world.groups_left, world.free
    assert compute_costs(*shape, *state) == expected
    assert CostTable(*shape).costs(*state) == expected
    assert all(len(cost) == len(FULL_DEVICE_COST) for cost in expected)
