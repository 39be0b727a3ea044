"""No claim takes more work than its budget, whatever it contains."""

import os
from typing import Final

import pytest

from dradriver.allocator import BUDGET
from dradriver.model.encoding.codec import encode
from tests.properties.allocator.hostile_claims import LARGEST_CLAIM, hostile_claim, new_placer, place

HOSTILE = int(os.environ.get("HOSTILE", "3"))

_LAST_WORK = 100_000
"""The most that one evaluation, or one other work that is counted at once, can exceed the budget."""

_MOST: Final = {"claim": BUDGET + BUDGET // 2 + _LAST_WORK}
"""The most work by result. The error of a wrong claim comes from a second decision on one node."""


def test_hostile_claims_end_within_the_budget() -> None:
    first = int(os.environ.get("HOSTILE_SEED", "0"))
    for seed in range(first, first + HOSTILE):
        wanted = hostile_claim(seed)
        assert len(encode(wanted.spec)) <= LARGEST_CLAIM
        result, work, cpu = place(new_placer(seed), wanted)
        print(f"{seed}: {result}, {work / 1000:.0f} ms of work, {cpu / 1000:.0f} ms of CPU")
        assert work <= _MOST.get(result, BUDGET + _LAST_WORK), seed


@pytest.mark.parametrize("seed", [25, 175])
def test_the_error_of_a_wrong_claim_compiles_nothing_again(seed: int) -> None:
    result, work, _ = place(new_placer(seed), hostile_claim(seed))
    assert result == "claim"
    assert work <= BUDGET + _LAST_WORK


def test_a_claim_takes_the_same_work_again() -> None:
    results = [place(new_placer(1), hostile_claim(7))[:2] for _ in range(2)]
    assert results[0] == results[1]
