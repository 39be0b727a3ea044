"""How far the devices of a claim are from being usable (KEP-5007), as the claim itself says.

Everything is in the claim: the conditions to wait for in the results of its allocation, their status in
`status.devices`, and since when in `allocationTimestamp`. So whoever asks, also after a restart, gets the same
answer, and pods that share a claim wait until the same moment. Only an allocation that was written without its
time counts from when the first of its pods began to wait, in this process: nobody can add the time, because the
API server lets no allocation change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import Allocation, DeviceId, DeviceResult, ResourceClaim

__all__ = ["BINDING_TIMEOUT", "BindingDeadline", "ConditionReadiness", "Unready", "readiness", "requires"]

BINDING_TIMEOUT: Final = timedelta(seconds=600)
"""How long conditions are waited for by default (`DynamicResourcesBindingTimeoutDefault`)."""


@dataclass(frozen=True, slots=True)
class BindingDeadline:
    """Until when conditions are waited for.

    Attributes:
        now: the time; None never gives up.
        timeout: how long after its allocation a claim is given up.
        since: when the first pod began to wait for a claim that does not say when it was allocated, by UID.
        enabled: whether conditions are looked at: not where the scheduler's DRADeviceBindingConditions is off.
    """

    now: datetime | None = None
    timeout: timedelta = BINDING_TIMEOUT
    since: Mapping[str, datetime] = field(default_factory=dict)
    enabled: bool = True

    def deadline(self, claim: ResourceClaim) -> datetime | None:
        """When the claim is given up; None when nobody knows since when it is waited for."""
        stamped = claim.allocation.allocation_timestamp if claim.allocation else None
        began = stamped or self.since.get(claim.metadata.uid)
        return None if began is None else began + self.timeout

    def is_over(self, claim: ResourceClaim) -> bool:
        """Whether the claim is given up now."""
        deadline = self.deadline(claim)
        return self.now is not None and deadline is not None and self.now >= deadline


class ConditionReadiness(Enum):
    """Whether a pod may be bound as far as one claim goes."""

    READY = "success"
    PENDING = "pending"
    FAILED = "failure"
    TIMED_OUT = "timeout"


@dataclass(frozen=True, slots=True)
class Unready:
    """A device that is not ready.

    Attributes:
        device: which.
        pending: the types of the conditions that are not True yet.
        failed: its failure conditions that are True.
    """

    device: DeviceId
    pending: tuple[str, ...] = ()
    failed: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        if self.failed:
            told = (f"{c.type} ({c.reason})" + (f": {c.message}" if c.message else "") for c in self.failed)
            return f"device {self.device}: {', '.join(told)}"
        return f"device {self.device}: {', '.join(self.pending)}"


def requires(allocation: Allocation | None) -> bool:
    """Whether a device of the allocation has binding conditions."""
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def readiness(
    claim: ResourceClaim, patience: BindingDeadline
) -> tuple[ConditionReadiness, tuple[Unready, ...]]:
    """Whether the claim lets its pods be bound, and the devices that keep it from that.

    One failure condition that is True outweighs all conditions that are, also on another device: what failed
    does not get better by waiting for the rest.
    """
    found = tuple(_unready(claim)) if patience.enabled else ()
    if failed := tuple(each for each in found if each.failed):
        return ConditionReadiness.FAILED, failed
    if not found:
        return ConditionReadiness.READY, ()
    return (ConditionReadiness.TIMED_OUT if patience.is_over(claim) else ConditionReadiness.PENDING), found


def _unready(claim: ResourceClaim) -> Iterator[Unready]:
    said = {entry.id: entry.conditions for entry in claim.status.devices}
    for result in claim.results:
        if not result.binding_conditions:
            continue
        unready = _of(result, said.get(result.id, []))
        if unready.pending or unready.failed:
            yield unready


def _of(result: DeviceResult, conditions: list[Condition]) -> Unready:
    true = {condition.type: condition for condition in conditions if condition.status == "True"}
    return Unready(
        device=result.id,
        pending=tuple(kind for kind in result.binding_conditions if kind not in true),
        failed=tuple(true[kind] for kind in result.binding_failure_conditions if kind in true),
    )
