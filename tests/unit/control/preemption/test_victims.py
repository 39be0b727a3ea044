"""The order of pods and nodes, and the count of violated PodDisruptionBudgets, are those of kube-scheduler."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from dradriver.control.preemption.victims import (
    Victims,
    is_preempted,
    rank_candidate,
    rank_importance,
    split_by_budgets,
)
from dradriver.model.core.node_selector import NodeSelectorRequirement
from dradriver.model.core.workload import LabelSelector, Pod, PodCondition
from dradriver.testing import builders
from tests.unit.control.running_pods import budget, with_priority
from tests.unit.control.world import NOW


def pod(name: str, priority: int | None = 0, started: int | None = 0, app: str = "") -> Pod:
    made = with_priority(builders.pod(name=name), priority)
    start = None if started is None else NOW + timedelta(seconds=started)
    labels = {"app": app} if app else {}
    return replace(
        made,
        metadata=replace(made.metadata, labels=labels),
        status=replace(made.status, start_time=start),
    )


def test_pods_of_higher_priority_and_then_older_pods_are_more_important() -> None:
    pods = [pod("waiting", 1, None), pod("young", 1, 5), pod("none", None), pod("old", 1, 1), pod("high", 2, 9)]
    ordered = sorted(pods, key=rank_importance)
    assert [each.metadata.name for each in ordered] == ["high", "old", "young", "waiting", "none"]


def victims_of(*pods: Pod, violations: int = 0) -> Victims:
    return Victims(pods, violations)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(
            victims_of(pod("a", 5), pod("b", 5)), victims_of(pod("a", 1), violations=1), id="fewer violations"
        ),
        pytest.param(
            victims_of(pod("a", 1), pod("b", 1)), victims_of(pod("a", 2)), id="lower highest priority"
        ),
        pytest.param(
            victims_of(pod("a", 2), pod("b", 0)), victims_of(pod("a", 2), pod("b", 1)), id="smaller sum"
        ),
        pytest.param(
            victims_of(pod("a", -5)),
            victims_of(pod("a", -5), pod("b", -9)),
            id="fewer victims, although negative",
        ),
        pytest.param(
            victims_of(pod("a", 2, 9), pod("b", 1, 1)),
            victims_of(pod("a", 2, 8), pod("b", 1, 9)),
            id="most important victims started later",
        ),
    ],
)
def test_nodes_are_preferred_as_kube_scheduler_prefers_them(better: Victims, worse: Victims) -> None:
    assert rank_candidate("node-2", better) < rank_candidate("node-1", worse)


def test_of_equal_nodes_the_first_by_name_is_preferred() -> None:
    assert rank_candidate("node-1", victims_of(pod("a"))) < rank_candidate("node-2", victims_of(pod("b")))


WEB = [pod("web-1", 2, 1, "web"), pod("web-2", 2, 2, "web"), pod("other", 1, 1, "other"), pod("plain")]


def violating(*budgets: object) -> list[str]:
    found, others = split_by_budgets(WEB, budgets)  # type: ignore[arg-type] # budgets of any kind
    assert len(found) + len(others) == len(WEB)
    return [each.metadata.name for each in found]


def test_each_victim_uses_up_a_disruption_of_its_budgets() -> None:
    assert violating() == []
    assert violating(budget("web", "web", 2)) == []
    assert violating(budget("web", "web", 1)) == ["web-2"]
    assert violating(budget("web", "web", 0)) == ["web-1", "web-2"]
    assert violating(budget("a", "web", 2), budget("b", "web", 0), budget("c", "other", 0)) == [
        "web-1",
        "web-2",
        "other",
    ]


def test_a_pod_that_violates_a_budget_uses_up_no_disruption_of_the_budgets_after_it() -> None:
    """kube-scheduler 1.37 stops at the first violated budget; earlier versions did not."""
    exists = LabelSelector(match_expressions=[NodeSelectorRequirement("app", "Exists")])
    made = budget("b", "", 1)
    every_app = replace(made, spec=replace(made.spec, selector=exists))
    assert violating(budget("a", "web", 0), every_app) == ["web-1", "web-2"]


def test_a_pod_whose_eviction_was_accepted_already_does_not_count() -> None:
    assert violating(budget("web", "web", 0, "web-1")) == ["web-2"]


def test_a_budget_without_a_selector_or_in_another_namespace_protects_no_pod() -> None:
    made = budget("web", "web", 0)
    assert violating(replace(made, spec=replace(made.spec, selector=None))) == []
    assert violating(replace(made, spec=replace(made.spec, selector=LabelSelector()))) == []
    assert violating(replace(made, metadata=replace(made.metadata, namespace="other"))) == []
    exists = LabelSelector(match_expressions=[NodeSelectorRequirement("app", "Exists")])
    assert violating(replace(made, spec=replace(made.spec, selector=exists))) == ["web-1", "web-2", "other"]


@pytest.mark.parametrize(
    ("reason", "status", "leaving", "expected"),
    [
        ("PreemptionByScheduler", "True", True, True),
        ("PreemptionByScheduler", "True", False, False),
        ("PreemptionByScheduler", "False", True, False),
        ("DeletionByDeviceTaintManager", "True", True, False),
    ],
)
def test_only_pods_that_a_scheduler_preempted_and_that_are_leaving_are_waited_for(
    reason: str, status: str, leaving: bool, expected: bool
) -> None:
    made = pod("victim")
    target = PodCondition(type="DisruptionTarget", status=status, reason=reason)
    made = replace(made, status=replace(made.status, conditions=[target]))
    if leaving:
        made = replace(made, metadata=replace(made.metadata, deletion_timestamp=NOW))
    assert is_preempted(made) is expected
