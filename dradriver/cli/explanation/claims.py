"""States of the claims of a pod."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from dradriver.cli.classic import ClassicClaim
from dradriver.cli.terminal.output import age
from dradriver.control.scheduler.binding.binding_conditions import (
    BindingDeadline,
    ConditionReadiness,
    Unready,
    check_readiness,
)
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["ClaimStage", "DeviceState", "SetConditions", "State", "claim_state", "find_set_conditions"]

State: TypeAlias = Literal[
    "missing",
    "pending",
    "allocating",
    "ready",
    "waiting",
    "failed",
    "timed-out",
    "not-prepared",
    "deallocating",
]
SetConditions: TypeAlias = frozenset[tuple[str, str]]
"""Driver and type of each condition that is set on any claim of the cluster."""

_STATES: Final[Mapping[ConditionReadiness, State]] = {
    ConditionReadiness.READY: "ready",
    ConditionReadiness.PENDING: "waiting",
    ConditionReadiness.FAILED: "failed",
    ConditionReadiness.TIMED_OUT: "timed-out",
}
_STATE_TEXTS: Final[Mapping[State, str]] = {
    "missing": "does not exist",
    "pending": "is not allocated",
    "ready": "is ready",
    "waiting": "waits for conditions",
    "failed": "failed",
    "timed-out": "timed out",
    "not-prepared": "is allocated, but the node fails to prepare it",
    "allocating": "is being allocated",
    "deallocating": "is being deallocated",
}


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device that is not ready (KEP-5007).

    Attributes:
        device: ID of the device.
        text: description of the pending or failed conditions.
        pending: types of the device's conditions that are not True yet.
        failed: types of the device's failure conditions that are True.
        unserved: types of pending conditions that are not set on any claim of this cluster.
    """

    device: DeviceId
    text: str
    pending: tuple[str, ...]
    failed: tuple[str, ...]
    unserved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimStage:
    """State of one claim.

    Attributes:
        name: name of the claim in the pod; empty for a claim without a pod.
        claim: `namespace/name`; empty if the claim has not been created from its template yet.
        state: state of the claim.
        results: the devices that are allocated to the claim.
        since: time of the allocation.
        until: the scheduler's deadline for binding conditions; None if the deadline is unknown, or if the claim
            is ready.
        now: time of the explanation.
        devices: devices that are not ready.
        failure: the kubelet's message about a failed prepare.
        failed_at: time of the last message about a failed prepare.
        classic: how a controller allocates the claim; None if the claim is allocated from slices.
    """

    name: str
    claim: str
    state: State
    results: tuple[DeviceId, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    now: datetime | None = None
    devices: tuple[DeviceState, ...] = ()
    failure: str = ""
    failed_at: datetime | None = None
    classic: ClassicClaim | None = None

    def lines(self) -> Iterable[str]:
        """Yield the lines of the text output."""
        name = f"{self.name}: " if self.name else ""
        if not self.claim:
            yield f"{name}the claim is not created from its template yet"
            return
        yield f"{name}claim {self.claim} {_STATE_TEXTS[self.state]}{self._times()}"
        if self.classic is not None:
            yield from (f"  {line}" for line in _classic_lines(self.classic))
        if self.failure:
            yield f"  kubelet event, {age(self.failed_at, self.now)} ago: {self.failure}"
        for each in self.devices:
            yield f"  {each.text}"
            if each.unserved:
                yield (
                    f"  {', '.join(each.unserved)} is set on no claim of this cluster: "
                    f"check that the controller of driver {each.device.driver} runs"
                )

    def _times(self) -> str:
        if not self.devices:
            return f": {', '.join(map(str, self.results))}" if self.results else ""
        moment = f"{rfc3339(self.since)} ({age(self.since, self.now)})" if self.since else "an unknown time"
        return f", since {moment}" + (f", until {rfc3339(self.until)}" if self.until else "")

    def document(self) -> dict[str, object]:
        """Return the document for programs."""
        return {
            "name": self.name or None,
            "claim": self.claim or None,
            "state": self.state,
            "results": [str(device) for device in self.results],
            "since": rfc3339(self.since) if self.since else None,
            "until": rfc3339(self.until) if self.until else None,
            "failure": self.failure or None,
            "controller": self.classic.controller if self.classic else None,
            "mode": self.classic.mode if self.classic else None,
            "devices": [
                {
                    "device": str(each.device),
                    "pending": list(each.pending),
                    "failed": list(each.failed),
                    "unserved": list(each.unserved),
                }
                for each in self.devices
            ],
        }


def _classic_lines(classic: ClassicClaim) -> Iterator[str]:
    """Yield what a controller does with the claim, or has to do."""
    who = f"controller {classic.controller}"
    if classic.is_deallocation_requested:
        yield f"its deallocation is requested: {who} must deallocate it (resourceclaim must be reallocated)"
    elif classic.state == "deallocating":
        when = ", after its consumers have left it" if classic.claim.status.reserved_for else ""
        yield f"the claim is deleted: {who} deallocates it{when}"
    elif classic.state == "allocating":
        node = classic.record.spec.node if classic.record else ""
        yield f"{who} has begun to allocate it{f' for node {node}' if node else ''}, or is releasing it"
    elif classic.state == "pending" and classic.is_delayed:
        yield f"{who} allocates it, for the node that the scheduler selects (WaitForFirstConsumer)"
    elif classic.state == "pending":
        yield f"unallocated immediate resourceclaim: {who} allocates it without a pod (Immediate)"


def find_set_conditions(claims: Iterable[ResourceClaim]) -> SetConditions:
    """Return the conditions that are set on the devices of these claims.

    Args:
        claims: all claims of the cluster.
    """
    return frozenset(
        (entry.driver, condition.type)
        for claim in claims
        for entry in claim.status.devices
        for condition in entry.conditions
    )


def claim_state(
    name: str,
    ref: str,
    claim: ResourceClaim | None,
    known: SetConditions,
    binding_deadline: BindingDeadline,
    classic: ClassicClaim | None = None,
) -> ClaimStage:
    """Return the state of a claim.

    Args:
        name: name of the claim in the pod.
        ref: `namespace/name`; empty if unknown.
        claim: the claim; None if it does not exist.
        known: conditions that are set on some claim of the cluster, from `find_set_conditions`.
        binding_deadline: deadline for binding conditions.
        classic: how a controller allocates the claim; None if the claim is allocated from slices.
    """
    if claim is None:
        return ClaimStage(name, ref, "missing")
    results = tuple(result.id for result in claim.results)
    if classic is not None and classic.state != "allocated":
        return ClaimStage(name, ref, classic.state, results, classic=classic)
    if claim.allocation is None:
        return ClaimStage(name, ref, "pending")
    readiness_now, unready = check_readiness(claim, binding_deadline)
    if readiness_now is ConditionReadiness.READY:
        return ClaimStage(name, ref, "ready", results, classic=classic)
    state = _STATES[readiness_now]
    return ClaimStage(
        name,
        ref,
        state,
        results,
        claim.allocation.allocation_timestamp,
        binding_deadline.of_claim(claim),
        binding_deadline.now,
        tuple(_device(each, known, failed=state == "failed") for each in unready),
        classic=classic,
    )


def _device(each: Unready, known: SetConditions, *, failed: bool) -> DeviceState:
    unserved = () if failed else tuple(kind for kind in each.pending if (each.device.driver, kind) not in known)
    return DeviceState(each.device, str(each), each.pending, tuple(c.type for c in each.failed), unserved)
