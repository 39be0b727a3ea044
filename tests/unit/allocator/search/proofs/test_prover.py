"""Requests that can't be served together are refused by a proof, and the others are served."""

from collections import Counter
from collections.abc import Collection, Sequence
from random import Random

import pytest

from dradriver.allocator import Refusal, Reporter
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.search.proofs.boards import Field, board, cards, one_of_each
from tests.unit.allocator.worlds import DRIVER, claim, devices, request, slice_, try_on

_CARDS, _MEMORY = 8, 1000


class Steps(Reporter):
    """Keeps the number of steps."""

    def __init__(self) -> None:
        self.steps = -1

    def finished(self, steps: int, *, found: bool) -> None:
        self.steps = steps


def decide(slices: Sequence[ResourceSlice], *claims: ResourceClaim) -> tuple[str, int, list[str]]:
    """Return "placed" or the kind of the refusal, the number of steps and the devices."""
    steps = Steps()
    try:
        found = devices(try_on(slices, *claims, reporter=steps))
    except Refusal as refusal:
        return refusal.kind, steps.steps, []
    return "placed", steps.steps, found


def dominoes(count: int, *, together: bool) -> ResourceClaim:
    if together:
        return claim(request(count=count))
    return claim(*(request(f"r{number}") for number in range(count)))


@pytest.mark.parametrize("together", [True, False], ids=["one request", "a request each"])
def test_a_board_without_two_opposite_corners_is_not_covered(together: bool) -> None:
    kind, steps, _ = decide(board(6, 6, {(0, 0), (5, 5)}), dominoes(17, together=together))
    assert kind == "node"
    assert steps < 200


@pytest.mark.parametrize("removed", [{(0, 0), (0, 5)}, {(2, 2), (3, 2)}], ids=str)
@pytest.mark.parametrize("together", [True, False], ids=["one request", "a request each"])
def test_a_board_without_fields_of_both_colors_is_covered(removed: Collection[Field], together: bool) -> None:
    kind, steps, found = decide(board(6, 6, removed), dominoes(17, together=together))
    assert (kind, len(found)) == ("placed", 17)
    assert steps < 500


def partition_into_threes(seed: int) -> list[int]:
    """Return 24 sizes, three for each card. None is a quarter of a card or less, or half of it or more."""
    random, sizes = Random(seed), list[int]()
    for _ in range(_CARDS):
        first = random.randint(300, 400)
        second = random.randint(260, 340)
        sizes += [first, second, _MEMORY - first - second]
    random.shuffle(sizes)
    return sizes


@pytest.mark.parametrize("seed", [1, 2])
def test_requests_that_fill_all_cards_exactly_are_placed(seed: int) -> None:
    sizes = partition_into_threes(seed)
    kind, steps, found = decide(cards(_CARDS, _MEMORY, sizes), one_of_each(sizes))
    assert kind == "placed"
    assert steps < 1000
    filled = Counter[str]()
    for size, name in zip(sizes, found, strict=True):
        filled[name.rpartition("-")[0]] += size
    assert set(filled.values()) == {_MEMORY}


@pytest.mark.parametrize("seed", [1, 2])
def test_requests_that_fill_no_cards_exactly_are_refused(seed: int) -> None:
    """Only the two largest sizes are odd, so one card must hold both. No third size is small enough."""
    sizes = sorted(size // 2 * 2 for size in partition_into_threes(seed))
    sizes[0] += _CARDS * _MEMORY - sum(sizes)
    sizes[-1] += 1
    sizes[-2] -= 1
    assert sum(sizes[-2:]) + min(sizes) > _MEMORY
    assert sum(sizes) == _CARDS * _MEMORY
    Random(seed).shuffle(sizes)
    kind, steps, _ = decide(cards(_CARDS, _MEMORY, sizes), one_of_each(sizes))
    assert kind == "node"
    assert steps < 200


def test_candidates_that_overlap_are_too_few_for_some_of_the_requests() -> None:
    """Three requests need six of five devices. Each two of them have enough, and so have all four requests."""
    kinds = ["a", "a", "b", "c", "c", "d", "d", "d"]
    gpus = [{"name": f"gpu-{n}", "attributes": {"kind": {"string": kind}}} for n, kind in enumerate(kinds)]
    pairs = [
        request(pair, f"device.attributes['{DRIVER}'].kind in {list(pair)}", count=2)
        for pair in ("ab", "bc", "ac")
    ]
    kind, steps, _ = decide([slice_("a", *gpus)], claim(*pairs, request("any")))
    assert kind == "node"
    assert steps < 200
