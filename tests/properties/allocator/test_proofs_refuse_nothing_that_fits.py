"""A proof never refuses what a trial of every combination can place."""

import os
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from random import Random

from dradriver.allocator.search.proofs.bin_packing import Bin, Item, exceeds_bins, pack
from dradriver.allocator.search.proofs.counter_matching import bound_matching
from dradriver.allocator.search.proofs.request_flow import Hub, can_flow

CASES = int(os.environ.get("PROOFS", "300"))


def fits_by_trial(items: Sequence[Item], bins: Sequence[Bin]) -> bool:
    """Return whether some distribution of the single items over the bins keeps all limits."""
    single = [item for item in items for _ in range(item.count)]
    return any(
        keeps_limits(items, bins, list(zip(single, where, strict=True)))
        for where in product(bins, repeat=len(single))
    )


def keeps_limits(items: Sequence[Item], bins: Sequence[Bin], placed: Sequence[tuple[Item, Bin]]) -> bool:
    for each in bins:
        inside = [item for item, where in placed if where is each]
        if sum(item.size for item in inside) > each.left:
            return False
        if any(sum(one is item for one in inside) > item.rooms.get(each.name, 0) for item in items):
            return False
    return True


def ignore(steps: int) -> None:
    assert steps >= 0


def test_bin_packing_decides_as_a_trial_does() -> None:
    answers = set()
    for seed in range(CASES):
        random = Random(seed)
        bins = [Bin(name, random.choice([5, 7, 10, 10])) for name in range(random.randint(1, 3))]
        items = [
            Item(
                random.randint(1, 7),
                random.randint(1, 2),
                {each.name: random.choice([0, 1, 2, 2, 2]) for each in bins},
            )
            for _ in range(random.randint(1, 4))
        ]
        fits = fits_by_trial(items, bins)
        packing = pack(items, bins, ignore)
        assert (packing is not None) == fits, seed
        assert not (fits and exceeds_bins(items, bins)), seed
        answers.add(fits)
        if packing is not None:
            by_name = {each.name: each for each in bins}
            placed = [
                (item, by_name[name])
                for item, where in zip(items, packing, strict=True)
                for name, count in where.items()
                for _ in range(count)
            ]
            assert len(placed) == sum(item.count for item in items)
            assert keeps_limits(items, bins, placed), seed
    assert answers == {True, False}


def most_disjoint(edges: Sequence[tuple[int, int]]) -> int:
    def are_disjoint(chosen: Iterable[tuple[int, int]]) -> bool:
        ends = [end for edge in chosen for end in edge]
        return len(ends) == len(set(ends))

    sizes = (size for size in range(len(edges), 0, -1) if any(map(are_disjoint, combinations(edges, size))))
    return next(sizes, 0)


def test_the_matching_bound_is_never_too_small() -> None:
    exact = 0
    for seed in range(CASES):
        random = Random(seed)
        vertices = random.randint(2, 7)
        edges = [tuple(random.sample(range(vertices), 2)) for _ in range(random.randint(1, 8))]
        pairs = [(edge[0], edge[1]) for edge in edges]
        bound, most = bound_matching(pairs), most_disjoint(pairs)
        assert bound >= most, seed
        exact += bound == most
    assert exact > CASES * 0.9


def test_a_flow_exists_exactly_if_a_trial_finds_one() -> None:
    answers = set()
    for seed in range(CASES):
        random = Random(seed)
        requests = random.randint(1, 3)
        hubs = [
            Hub(random.randint(1, 3), tuple(random.randint(0, 2) for _ in range(requests)))
            for _ in range(random.randint(1, 3))
        ]
        counts = [random.randint(1, 3) for _ in range(requests)]
        ways = [
            [way for way in product(*(range(hub.rooms[number] + 1) for hub in hubs)) if sum(way) == count]
            for number, count in enumerate(counts)
        ]
        expected = any(
            all(sum(way[at] for way in chosen) <= hub.room for at, hub in enumerate(hubs))
            for chosen in product(*ways)
        )
        assert can_flow(counts, hubs) == expected, seed
        answers.add(expected)
    assert answers == {True, False}
