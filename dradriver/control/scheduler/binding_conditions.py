"""How far the devices of a claim are from ready (KEP-5007), read from the claim alone.

The claim has everything: the results of its allocation list the conditions to wait for, `status.devices` has
their status, and `allocationTimestamp` the beginning of the wait. So every reader gets the same answer, even
after a restart, and pods that share a claim wait until the same moment. There is one exception. For an
allocation that was written without its time, the wait counts from the moment when the first of its pods began
to wait in this process. The time can't be added later, because the API server does not let an allocation
change.
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
"""The default wait for conditions (`DynamicResourcesBindingTimeoutDefault`)."""


@dataclass(frozen=True, slots=True)
class BindingDeadline:
    """The deadline of the wait for binding conditions.

    Attributes:
        now: the time; None never gives up.
        timeout: how long after its allocation a claim is given up.
        since: for a claim without an allocation time, by UID, when the first pod began to wait for it.
        enabled: whether conditions are evaluated; False where the scheduler's DRADeviceBindingConditions is
            off.
    """

    now: datetime | None = None
    timeout: timedelta = BINDING_TIMEOUT
    since: Mapping[str, datetime] = field(default_factory=dict)
    enabled: bool = True

    def deadline(self, claim: ResourceClaim) -> datetime | None:
        """Return when the claim is given up, or None if the beginning of the wait is unknown."""
        stamped = claim.allocation.allocation_timestamp if claim.allocation else None
        began = stamped or self.since.get(claim.metadata.uid)
        return None if began is None else began + self.timeout

    def is_over(self, claim: ResourceClaim) -> bool:
        """Return whether the deadline of the claim has passed."""
        deadline = self.deadline(claim)
        return self.now is not None and deadline is not None and self.now >= deadline


class ConditionReadiness(Enum):
    """Whether the conditions of one claim let a pod be bound."""

    READY = "success"
    PENDING = "pending"
    FAILED = "failure"
    TIMED_OUT = "timeout"


@dataclass(frozen=True, slots=True)
class Unready:
    """A device that is not ready.

    Attributes:
        device: the device.
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
    """Return whether a device of the allocation has binding conditions."""
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def readiness(
    claim: ResourceClaim, patience: BindingDeadline
) -> tuple[ConditionReadiness, tuple[Unready, ...]]:
    """Return whether the claim lets its pods be bound, and the devices that prevent it.

    One failure condition that is True outweighs all binding conditions, even those of other devices: to wait
    for the rest does not repair a failed device.
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
