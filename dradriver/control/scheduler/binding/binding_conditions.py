"""Check whether the devices of a claim are ready (KEP-5007), from the claim alone.

The claim contains all data: the allocation results list the conditions to wait for, `status.devices` has the
status of the conditions, and `allocationTimestamp` is the beginning of the wait. So every process gets the same
answer, even after a restart, and all pods that share a claim have the same deadline. There is one exception: an
allocation without `allocationTimestamp`. For this allocation, the wait begins when the first of its pods begins
to wait in this process. The timestamp cannot be added later, because the API server rejects a change of an
allocation.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import Allocation, DeviceId, DeviceResult, ResourceClaim

__all__ = [
    "BINDING_TIMEOUT",
    "BindingDeadline",
    "ConditionReadiness",
    "Unready",
    "check_readiness",
    "find_deadline",
    "has_conditions",
]

BINDING_TIMEOUT: Final = timedelta(seconds=600)
"""The default maximum of the wait for conditions (`DynamicResourcesBindingTimeoutDefault`)."""


@dataclass(frozen=True, slots=True)
class BindingDeadline:
    """The deadline of the wait for binding conditions, and of the wait for controllers (KEP-3063).

    Attributes:
        now: the current time. If None, no deadline passes.
        timeout: the time from the allocation of a claim to its deadline.
        since: by the UID of each claim whose allocation has no timestamp, the time at which its first pod began
            to wait.
        enabled: whether conditions are evaluated. False if the scheduler's feature gate
            DRADeviceBindingConditions is off.
        selected_at: the time at which the pod of the decision began to wait for controllers. None: it does not
            wait for them.
    """

    now: datetime | None = None
    timeout: timedelta = BINDING_TIMEOUT
    since: Mapping[str, datetime] = field(default_factory=dict)
    enabled: bool = True
    selected_at: datetime | None = None

    @property
    def end_of_wait(self) -> datetime | None:
        """Return the end of the wait for controllers; None if the pod does not wait yet."""
        return None if self.selected_at is None else self.selected_at + self.timeout

    @property
    def has_waited_too_long(self) -> bool:
        """Return whether the wait for controllers is over."""
        end = self.end_of_wait
        return self.now is not None and end is not None and self.now >= end

    def of_claim(self, claim: ResourceClaim) -> datetime | None:
        """Return the deadline of the claim, or None if the beginning of the wait is unknown."""
        timestamp = claim.allocation.allocation_timestamp if claim.allocation else None
        start = timestamp or self.since.get(claim.metadata.uid)
        return None if start is None else start + self.timeout

    def has_passed(self, claim: ResourceClaim) -> bool:
        """Return whether the deadline of the claim has passed."""
        deadline = self.of_claim(claim)
        return self.now is not None and deadline is not None and self.now >= deadline


class ConditionReadiness(Enum):
    """Whether the binding conditions of a claim allow its pods to be bound."""

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
        failed: the failure conditions that are True.
    """

    device: DeviceId
    pending: tuple[str, ...] = ()
    failed: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        if self.failed:
            failures = (f"{c.type} ({c.reason})" + (f": {c.message}" if c.message else "") for c in self.failed)
            return f"device {self.device}: {', '.join(failures)}"
        return f"device {self.device}: {', '.join(self.pending)}"


def has_conditions(allocation: Allocation | None) -> bool:
    """Return whether a device of the allocation has binding conditions."""
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def check_readiness(
    claim: ResourceClaim, deadline: BindingDeadline
) -> tuple[ConditionReadiness, tuple[Unready, ...]]:
    """Return whether the claim allows its pods to be bound, and the devices that are not ready.

    If one failure condition is True, the claim has failed, whatever the other conditions and devices are:
    waiting does not repair a failed device.
    """
    unready = tuple(_find_unready(claim)) if deadline.enabled else ()
    if failed := tuple(each for each in unready if each.failed):
        return ConditionReadiness.FAILED, failed
    if not unready:
        return ConditionReadiness.READY, ()
    return (ConditionReadiness.TIMED_OUT if deadline.has_passed(claim) else ConditionReadiness.PENDING), unready


def find_deadline(claims: Iterable[ResourceClaim], deadline: BindingDeadline) -> datetime | None:
    """Return the first deadline of devices that are ready or becoming ready.

    Until then, a pod keeps its devices although its binding was interrupted, because becoming ready may take
    minutes.

    Args:
        claims: the claims of the pod.
        deadline: the deadline of the wait for binding conditions.

    Returns:
        The deadline; None if no claim has conditions, a device has failed, or conditions are not evaluated.
    """
    waiting = [claim for claim in claims if deadline.enabled and has_conditions(claim.allocation)]
    if any(check_readiness(claim, deadline)[0] is ConditionReadiness.FAILED for claim in waiting):
        return None
    return min((end for claim in waiting if (end := deadline.of_claim(claim)) is not None), default=None)


def _find_unready(claim: ResourceClaim) -> Iterator[Unready]:
    conditions = {entry.id: entry.conditions for entry in claim.status.devices}
    for result in claim.results:
        if not result.binding_conditions:
            continue
        unready = _check_device(result, conditions.get(result.id, []))
        if unready.pending or unready.failed:
            yield unready


def _check_device(result: DeviceResult, conditions: list[Condition]) -> Unready:
    true = {condition.type: condition for condition in conditions if condition.status == "True"}
    return Unready(
        device=result.id,
        pending=tuple(kind for kind in result.binding_conditions if kind not in true),
        failed=tuple(true[kind] for kind in result.binding_failure_conditions if kind in true),
    )
