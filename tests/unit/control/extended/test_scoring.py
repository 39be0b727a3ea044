"""`NodeResourcesFit`'s strategies, for extended resources."""

import pytest

from dradriver.control.extended import ResourceUse, ScoringStrategy
from tests.unit.control.extended_pods import GPU, NIC


def test_a_strategy_is_written_with_resources_and_weights() -> None:
    assert ScoringStrategy.parse(f"MostAllocated:{GPU}=3,{NIC}") == ScoringStrategy(
        "MostAllocated", {GPU: 3, NIC: 1}
    )


@pytest.mark.parametrize(("wanted", "least", "most"), [(1, 75, 25), (4, 0, 100), (3, 25, 75)])
def test_the_score_is_what_is_left_or_what_is_taken(wanted: int, least: int, most: int) -> None:
    uses = {GPU: ResourceUse(capacity=4, wanted=wanted)}
    assert ScoringStrategy("LeastAllocated", {GPU: 1}).score(uses) == least
    assert ScoringStrategy("MostAllocated", {GPU: 1}).score(uses) == most


def test_resources_count_by_their_weights() -> None:
    uses = {GPU: ResourceUse(4, 4), NIC: ResourceUse(10, 0)}
    assert ScoringStrategy("LeastAllocated", {GPU: 3, NIC: 1}).score(uses) == 25


def test_what_a_node_does_not_have_and_what_is_not_named_do_not_count() -> None:
    strategy = ScoringStrategy("LeastAllocated", {GPU: 1, NIC: 1})
    assert (
        strategy.score({GPU: ResourceUse(4, 2), NIC: ResourceUse(0, 1), "example.com/other": ResourceUse(1, 1)})
        == 50
    )
    assert strategy.score({}) == 0


def test_by_default_nothing_counts() -> None:
    """As in kube-scheduler's configuration, where CPU and memory are named only."""
    assert not ScoringStrategy().counts({GPU: 1})
