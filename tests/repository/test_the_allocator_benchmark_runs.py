"""The allocator's benchmark runs, on nodes so few that it takes no time; what it measures is not judged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.allocator.churn import POLICIES, refused_percent
from benchmarks.allocator.placing import measure
from benchmarks.allocator.workloads import Workload, grouped, mig, write


@pytest.mark.parametrize("order", ["ordered", "packed"])
@pytest.mark.parametrize("make", [mig, grouped])
def test_every_pod_of_a_workload_is_placed(
    tmp_path: Path, make: Callable[[int, int, float, int], Workload], order: str
) -> None:
    write(make(2, 1, 0, 0), tmp_path / "workload")
    figures = measure(tmp_path / "workload", 20, order)
    assert figures.placed == figures.offered == 20


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_under_churn_refuses_some_pods(policy: str) -> None:
    assert 0 < refused_percent(POLICIES[policy], seed=1, nodes=1) < 50
