"""The condition EvictionInProgress of a DeviceTaintRule, in the words of Kubernetes 1.37."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from msgspec.structs import replace

from dradriver.control.taints.rule_status import Counts, condition_of, may_be_told_at
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


def told(before: DeviceTaintRule, counts: Counts, now: datetime = NOW) -> DeviceTaintRule:
    condition = condition_of(before, counts, now)
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
    (condition,) = told(rule(), counts).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("EvictionInProgress", status, reason)
    assert condition.message == message
    assert (condition.observed_generation, condition.last_transition_time) == (1, NOW)


def test_a_rule_without_effect_says_what_it_would_do() -> None:
    (condition,) = told(
        rule("None"), Counts(published=1, allocated=2, pending=1, namespaces=1)
    ).status.conditions
    assert (condition.status, condition.reason) == ("False", "NoEffect")
    assert condition.message == (
        "1 published device selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )


def test_a_rule_that_keeps_new_claims_away_evicts_nobody() -> None:
    (condition,) = told(rule("NoSchedule"), Counts()).status.conditions
    assert (condition.status, condition.reason) == ("False", "OtherEffect")


def test_the_same_is_not_written_again() -> None:
    assert condition_of(told(rule(), Counts()), Counts(), NOW + timedelta(hours=1)) is None


def test_each_change_moves_the_time_of_the_condition() -> None:
    later = NOW + timedelta(seconds=11)
    (condition,) = told(told(rule(), Counts()), Counts(evicted=1), later).status.conditions
    assert condition.last_transition_time == later


def test_a_rule_is_told_of_every_ten_seconds_at_most() -> None:
    assert may_be_told_at(told(rule(), Counts())) == NOW + timedelta(seconds=10)


def test_a_rule_that_was_changed_is_told_of_at_once() -> None:
    before = told(rule(), Counts())
    assert may_be_told_at(replace(before, metadata=replace(before.metadata, generation=2))) is None
    assert may_be_told_at(rule()) is None
