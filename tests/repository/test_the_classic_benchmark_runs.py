"""The benchmark of classic DRA runs, on few nodes; the test assesses the rounds, and not the time."""

from statistics import median

import pytest

from benchmarks.classic import Outcome, embedded


async def test_pods_with_claims_of_two_drivers_that_disagree_need_few_rounds() -> None:
    outcome = await embedded(nodes=12, pods=20)
    assert outcome.bound == 20
    assert median(outcome.counts) <= 3
    assert not outcome.problem


async def test_the_benchmark_ends_if_pods_are_not_bound_in_time() -> None:
    outcome = await embedded(nodes=12, pods=20, seconds=0.0)
    assert outcome.problem == "embedded: 20 of 20 pods were not bound in time"
    assert outcome.row[:3] == ["embedded", "20", "0.0"]


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ([1, 3, 9], ""),
        ([1, 4, 4], "embedded: the median of the rounds is 4, must be at most 3"),
    ],
)
def test_many_rounds_in_the_median_are_a_problem(counts: list[int], problem: str) -> None:
    assert Outcome("embedded", 3, 3, 1.0, counts).problem == problem
