"""The condition EvictionInProgress of a DeviceTaintRule, in the words of Kubernetes 1.37."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from msgspec.structs import replace

from dradriver.control.taints.rule_status import Counts, next_condition, next_update
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.device import Taint
from dradriver.model.resource.taint_rule import (
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintRuleStatus,
    DeviceTaintSelector,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def rule(effect: Literal["None", "NoSchedule", "NoExecute"] = "NoExecute") -> DeviceTaintRule:
    return DeviceTaintRule(
        metadata=ObjectMeta(name="rule", uid="uid", generation=1),
        spec=DeviceTaintRuleSpec(
            taint=Taint(key="example.com/broken", effect=effect), device_selector=DeviceTaintSelector()
        ),
    )


def updated(before: DeviceTaintRule, counts: Counts, now: datetime = NOW) -> DeviceTaintRule:
    condition = next_condition(before, counts, now)
    assert condition is not None
    return replace(before, status=DeviceTaintRuleStatus(conditions=[condition]))


@pytest.mark.parametrize(
    ("counts", "status", "reason", "message"),
    [
        (Counts(), "False", "NotStarted", ""),
        (
            Counts(pending=1, namespaces=1),
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace.",
        ),
        (
            Counts(pending=3, namespaces=2, evicted=1),
            "True",
            "PodsPendingEviction",
            "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
        ),
        (Counts(evicted=2), "False", "Completed", "2 pods evicted since starting the controller."),
    ],
    ids=["nothing-to-do", "one", "some", "all-done"],
)
def test_a_rule_that_evicts(counts: Counts, status: str, reason: str, message: str) -> None:
    (condition,) = updated(rule(), counts).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("EvictionInProgress", status, reason)
    assert condition.message == message
    assert (condition.observed_generation, condition.last_transition_time) == (1, NOW)


def test_a_rule_with_the_effect_none_reports_possible_evictions() -> None:
    (condition,) = updated(
        rule("None"), Counts(published=1, allocated=2, pending=1, namespaces=1)
    ).status.conditions
    assert (condition.status, condition.reason) == ("False", "NoEffect")
    assert condition.message == (
        "1 published device selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )


def test_a_no_schedule_rule_evicts_no_pod() -> None:
    (condition,) = updated(rule("NoSchedule"), Counts()).status.conditions
    assert (condition.status, condition.reason) == ("False", "OtherEffect")


def test_an_unchanged_condition_is_not_written() -> None:
    assert next_condition(updated(rule(), Counts()), Counts(), NOW + timedelta(hours=1)) is None


def test_each_change_updates_the_time_of_the_condition() -> None:
    later = NOW + timedelta(seconds=11)
    (condition,) = updated(updated(rule(), Counts()), Counts(evicted=1), later).status.conditions
    assert condition.last_transition_time == later


def test_a_rule_is_updated_at_most_every_ten_seconds() -> None:
    assert next_update(updated(rule(), Counts())) == NOW + timedelta(seconds=10)


def test_a_changed_rule_is_updated_at_once() -> None:
    before = updated(rule(), Counts())
    assert next_update(replace(before, metadata=replace(before.metadata, generation=2))) is None
    assert next_update(rule()) is None
