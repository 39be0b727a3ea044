"""Compute the status of a DeviceTaintRule, which reports its evictions, as a pure function.

The condition's type, reasons and messages are those of Kubernetes 1.37, because programs and users read them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec.structs import replace

from dradriver.model.core.meta import Condition
from dradriver.model.resource.taint_rule import EVICTION_IN_PROGRESS, DeviceTaintRule

__all__ = ["STATUS_PERIOD", "Counts", "find_condition", "next_condition", "next_update"]

STATUS_PERIOD: Final = timedelta(seconds=10)
"""The minimum time between two updates of the status of a rule (`ruleStatusPeriod`)."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of devices and pods that a rule affects, or would affect if its effect were NoExecute.

    Attributes:
        published: devices that the rule selects in published slices.
        allocated: devices that the rule selects in the allocations of claims.
        pending: pods that must be evicted, or that would be evicted if the effect were NoExecute.
        namespaces: namespaces of the pending pods.
        evicted: pods that were deleted because of the rule since the controller started.
    """

    published: int = 0
    allocated: int = 0
    pending: int = 0
    namespaces: int = 0
    evicted: int = 0


class _Progress(NamedTuple):
    status: str
    reason: str
    message: str


def find_condition(rule: DeviceTaintRule) -> Condition | None:
    """Return the rule's current condition that reports evictions; None if it has none."""
    return next((each for each in rule.status.conditions if each.type == EVICTION_IN_PROGRESS), None)


def next_update(rule: DeviceTaintRule) -> datetime | None:
    """Return the earliest time of the next update of the rule's status; None if it may be updated now.

    None means that the status was not yet updated for this generation of the rule.
    """
    condition = find_condition(rule)
    if condition is None or condition.last_transition_time is None:
        return None
    is_current = condition.observed_generation == rule.metadata.generation
    return condition.last_transition_time + STATUS_PERIOD if is_current else None


def next_condition(rule: DeviceTaintRule, counts: Counts, now: datetime) -> Condition | None:
    """Return the condition to write; None if the rule already has this condition."""
    progress = _BY_EFFECT.get(rule.spec.taint.effect, _other)(counts)
    message = " ".join(filter(None, (progress.message, _evicted(counts))))
    before = find_condition(rule)
    condition = Condition(
        type=EVICTION_IN_PROGRESS,
        status=progress.status,
        reason=progress.reason,
        message=message,
        last_transition_time=before.last_transition_time if before else None,
        observed_generation=rule.metadata.generation,
    )
    # Every change of the condition sets its time, because `next_update` computes the next time from it.
    return None if condition == before else replace(condition, last_transition_time=now)


def _no_execute(counts: Counts) -> _Progress:
    if counts.pending:
        need = "1 pod needs" if counts.pending == 1 else f"{counts.pending} pods need"
        return _Progress("True", "PodsPendingEviction", f"{need} to be evicted in {_namespaces(counts)}.")
    return _Progress("False", "Completed" if counts.evicted else "NotStarted", "")


def _no_effect(counts: Counts) -> _Progress:
    message = (
        f"{_number(counts.published, 'published device')} selected. "
        f"{_number(counts.allocated, 'allocated device')} selected. "
        f"{_number(counts.pending, 'pod')} would be evicted in {_namespaces(counts)} "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )
    return _Progress("False", "NoEffect", message)


def _other(_counts: Counts) -> _Progress:
    return _Progress("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")


_BY_EFFECT: Final = {"NoExecute": _no_execute, "None": _no_effect}


def _evicted(counts: Counts) -> str:
    if not counts.evicted:
        return ""
    return f"{_number(counts.evicted, 'pod')} evicted since starting the controller."


def _namespaces(counts: Counts) -> str:
    return "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
