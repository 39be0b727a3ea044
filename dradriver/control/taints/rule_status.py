"""The status of a DeviceTaintRule about its evictions, as a pure function.

Type, reasons and texts are those of Kubernetes 1.37: programs read the type and the reasons, people the texts.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec.structs import replace

from dradriver.model.core.meta import Condition
from dradriver.model.resource.taint_rule import EVICTION_IN_PROGRESS, DeviceTaintRule

__all__ = ["STATUS_PERIOD", "Counts", "condition_of", "may_be_told_at", "stands"]

STATUS_PERIOD: Final = timedelta(seconds=10)
"""The shortest time between two updates of one rule (`ruleStatusPeriod`)."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The effects of a rule, or its effects if it were NoExecute.

    Attributes:
        published: devices in slices that it selects.
        allocated: devices of claims that it selects.
        pending: pods that must be evicted, or would if the effect were NoExecute.
        namespaces: number of namespaces of these pods.
        evicted: pods that were deleted because of it, since the controller started.
    """

    published: int = 0
    allocated: int = 0
    pending: int = 0
    namespaces: int = 0
    evicted: int = 0


class _Said(NamedTuple):
    status: str
    reason: str
    message: str


def stands(rule: DeviceTaintRule) -> Condition | None:
    """Return the rule's current condition, or None."""
    return next((each for each in rule.status.conditions if each.type == EVICTION_IN_PROGRESS), None)


def may_be_told_at(rule: DeviceTaintRule) -> datetime | None:
    """Return the earliest time of the next update, or None if it may be written at any time.

    None means that there is no update yet for this generation of the rule.
    """
    said = stands(rule)
    if said is None or said.last_transition_time is None:
        return None
    same = said.observed_generation == rule.metadata.generation
    return said.last_transition_time + STATUS_PERIOD if same else None


def condition_of(rule: DeviceTaintRule, counts: Counts, now: datetime) -> Condition | None:
    """Return the condition to write, or None if the rule has it already."""
    words = _SAID.get(rule.spec.taint.effect, _other)(counts)
    message = " ".join(filter(None, (words.message, _evicted(counts))))
    before = stands(rule)
    told = Condition(
        type=EVICTION_IN_PROGRESS,
        status=words.status,
        reason=words.reason,
        message=message,
        last_transition_time=before.last_transition_time if before else None,
        observed_generation=rule.metadata.generation,
    )
    # Every change of the condition updates its time, from which the time of the next update follows.
    return None if told == before else replace(told, last_transition_time=now)


def _no_execute(counts: Counts) -> _Said:
    if counts.pending:
        need = "1 pod needs" if counts.pending == 1 else f"{counts.pending} pods need"
        return _Said("True", "PodsPendingEviction", f"{need} to be evicted in {_namespaces(counts)}.")
    return _Said("False", "Completed" if counts.evicted else "NotStarted", "")


def _no_effect(counts: Counts) -> _Said:
    message = (
        f"{_number(counts.published, 'published device')} selected. "
        f"{_number(counts.allocated, 'allocated device')} selected. "
        f"{_number(counts.pending, 'pod')} would be evicted in {_namespaces(counts)} "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )
    return _Said("False", "NoEffect", message)


def _other(_counts: Counts) -> _Said:
    return _Said("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")


_SAID: Final = {"NoExecute": _no_execute, "None": _no_effect}


def _evicted(counts: Counts) -> str:
    if not counts.evicted:
        return ""
    return f"{_number(counts.evicted, 'pod')} evicted since starting the controller."


def _namespaces(counts: Counts) -> str:
    return "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"


def _number(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
