"""`NodeResourcesFit`'s strategies, for extended resources."""

import pytest

from dradriver.control.extended.scoring import ResourceUse, ScoringStrategy
from tests.unit.control.extended_pods import GPU, NIC


def test_a_strategy_is_parsed_with_resources_and_weights() -> None:
    assert ScoringStrategy.parse(f"MostAllocated:{GPU}=3,{NIC}") == ScoringStrategy(
        "MostAllocated", {GPU: 3, NIC: 1}
    )


@pytest.mark.parametrize(("wanted", "least", "most"), [(1, 75, 25), (4, 0, 100), (3, 25, 75)])
def test_the_score_is_the_free_or_the_used_percentage(wanted: int, least: int, most: int) -> None:
    uses = {GPU: ResourceUse(capacity=4, wanted=wanted)}
    assert ScoringStrategy("LeastAllocated", {GPU: 1}).score(uses) == least
    assert ScoringStrategy("MostAllocated", {GPU: 1}).score(uses) == most


def test_resources_count_by_their_weights() -> None:
    uses = {GPU: ResourceUse(4, 4), NIC: ResourceUse(10, 0)}
    assert ScoringStrategy("LeastAllocated", {GPU: 3, NIC: 1}).score(uses) == 25


def test_resources_without_capacity_or_not_in_the_strategy_do_not_count() -> None:
    strategy = ScoringStrategy("LeastAllocated", {GPU: 1, NIC: 1})
    assert (
        strategy.score({GPU: ResourceUse(4, 2), NIC: ResourceUse(0, 1), "example.com/other": ResourceUse(1, 1)})
        == 50
    )
    assert strategy.score({}) == 0


def test_by_default_no_extended_resource_counts() -> None:
    """As in kube-scheduler's default configuration, which has only CPU and memory."""
    assert not ScoringStrategy().applies_to({GPU: 1})
