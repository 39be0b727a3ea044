"""The allocator's benchmark runs, on few nodes; the test does not assess the figures."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from benchmarks.allocator import component_churn
from benchmarks.allocator.churn import POLICIES, refused_percent
from benchmarks.allocator.mixes import MIXES, Mix, tpu_pool
from benchmarks.allocator.placing import measure
from benchmarks.allocator.workloads import Workload, write
from benchmarks.allocator.workloads.alike import grouped, mig, plain
from benchmarks.allocator.workloads.combined import choices, matched
from benchmarks.allocator.workloads.differing import (
    guarded,
    guarded_groups,
    named_cards,
    other_cards,
    sizes,
    spread,
)
from benchmarks.allocator.workloads.shared import network, racks
from benchmarks.allocator.workloads.superpods import superpods

_WORKLOADS: Final[dict[str, Callable[[int], Workload]]] = {
    "plain": partial(plain, 2),
    "mig": partial(mig, 2),
    "grouped": partial(grouped, 2),
    "guarded": partial(guarded, 2),
    "guarded_groups": partial(guarded_groups, 2),
    "other_cards": partial(other_cards, 2),
    "named_cards": partial(named_cards, 2),
    "sizes": partial(sizes, 3),
    "spread": partial(spread, 2, 50),
    "superpods": partial(superpods, 128),
    "network": partial(network, 2),
    "racks": partial(racks, 20),
    "matched": partial(matched, 3),
    "choices": partial(choices, 3),
}


@pytest.mark.parametrize("order", ["ordered", "packed"])
@pytest.mark.parametrize("name", ["mig", "grouped"])
def test_every_pod_of_a_workload_is_placed(tmp_path: Path, name: str, order: str) -> None:
    write(_WORKLOADS[name](1), tmp_path / "workload", 20)
    figures = measure(tmp_path / "workload", order)
    assert figures.placed == figures.offered == 20


@pytest.mark.parametrize("name", sorted(_WORKLOADS.keys() - {"mig", "grouped"}))
def test_first_pods_of_each_workload_are_placed(tmp_path: Path, name: str) -> None:
    write(_WORKLOADS[name](1), tmp_path / "workload", 4)
    figures = measure(tmp_path / "workload", "ordered")
    assert figures.placed == figures.offered == 4


def test_a_pod_leaves_when_one_more_comes_than_may_stay(tmp_path: Path) -> None:
    workload = replace(plain(1, 1), pods=plain(2, 1).pods, stay=10)
    write(workload, tmp_path / "workload")
    figures = measure(tmp_path / "workload", "ordered")
    assert figures.placed == figures.offered == 18


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_under_churn_refuses_some_pods(policy: str) -> None:
    assert 0 < refused_percent(POLICIES[policy], seed=1, nodes=1) < 50


def test_a_count_of_free_compute_refuses_less_than_an_allocator() -> None:
    mix = replace(MIXES["churn-tpu"][0], component=tpu_pool(4), count=2)
    packed, ordered, counted = (
        component_churn.measure(mix, policy, range(1, 3), lifetimes=20).mean
        for policy in component_churn.POLICIES
    )
    assert 0 < counted < min(packed, ordered) < 100


@pytest.mark.parametrize("mix", MIXES["churn-mig"], ids=lambda mix: mix.name)
def test_one_whole_gpu_serves_each_kind_of_claim(mix: Mix) -> None:
    masks, empty = mix.component.masks(), mix.component.shape().state(())
    assert masks.keys() == mix.shares.keys()
    assert empty.free == sum(masks.values())
