"""The benchmark of classic DRA runs, on few nodes; the test assesses the rounds, and not the time."""

from benchmarks.classic import embedded


async def test_pods_with_claims_of_two_drivers_that_disagree_need_few_rounds() -> None:
    _, pods, _, median, _ = await embedded(nodes=12, pods=20)
    assert pods == "20"
    assert float(median) <= 3
