"""States of the claims of a pod."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from dradriver.cli.terminal.output import age
from dradriver.control.scheduler.binding_conditions import (
    BindingDeadline,
    ConditionReadiness,
    Unready,
    readiness,
)
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["ClaimStage", "DeviceState", "SaidConditions", "State", "claim_state", "said_conditions"]

State: TypeAlias = Literal["missing", "pending", "ready", "waiting", "failed", "timed-out", "not-prepared"]
SaidConditions: TypeAlias = frozenset[tuple[str, str]]
"""Driver and type of each condition that is set on any claim of the cluster."""

_STATES: Final[Mapping[ConditionReadiness, State]] = {
    ConditionReadiness.READY: "ready",
    ConditionReadiness.PENDING: "waiting",
    ConditionReadiness.FAILED: "failed",
    ConditionReadiness.TIMED_OUT: "timed-out",
}
_WORDS: Final[Mapping[State, str]] = {
    "missing": "does not exist",
    "pending": "is not allocated",
    "ready": "is ready",
    "waiting": "waits for conditions",
    "failed": "failed",
    "timed-out": "took too long",
    "not-prepared": "is allocated, but its node fails to prepare it",
}


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device that is not ready (KEP-5007).

    Attributes:
        device: ID of the device.
        text: the pending or failed conditions, in words.
        pending: types of the conditions that are not True yet.
        failed: types of its failure conditions that are True.
        unserved: those of `pending` that were never set on this cluster.
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
        name: the pod's name for it; empty for a claim by itself.
        claim: `namespace/name`; empty while it is not created from its template.
        state: its state.
        results: its allocated devices.
        since: time of the allocation.
        until: time at which the scheduler gives up waiting; None if it is unknown, or if the claim is ready.
        now: time of the answer.
        devices: devices that are not ready.
        failure: the kubelet's message about a failed prepare.
        failed_at: time of the last such message.
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

    def lines(self) -> Iterable[str]:
        """Return the answer for people."""
        name = f"{self.name}: " if self.name else ""
        if not self.claim:
            yield f"{name}its claim is not made from its template yet"
            return
        yield f"{name}claim {self.claim} {_WORDS[self.state]}{self._times()}"
        if self.failure:
            yield f"  the kubelet said {age(self.failed_at, self.now)} ago: {self.failure}"
        for each in self.devices:
            yield f"  {each.text}"
            if each.unserved:
                yield (
                    f"  nobody has set {', '.join(each.unserved)} on any claim of this cluster: "
                    f"does the controller of driver {each.device.driver} run?"
                )

    def _times(self) -> str:
        if not self.devices:
            return f": {', '.join(map(str, self.results))}" if self.results else ""
        moment = f"{rfc3339(self.since)} ({age(self.since, self.now)})" if self.since else "an unknown time"
        return f", since {moment}" + (f", until {rfc3339(self.until)}" if self.until else "")

    def document(self) -> dict[str, object]:
        """Return the answer for programs."""
        return {
            "name": self.name or None,
            "claim": self.claim or None,
            "state": self.state,
            "results": [str(device) for device in self.results],
            "since": rfc3339(self.since) if self.since else None,
            "until": rfc3339(self.until) if self.until else None,
            "failure": self.failure or None,
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


def said_conditions(claims: Iterable[ResourceClaim]) -> SaidConditions:
    """Return the conditions that are set on the devices of these claims."""
    return frozenset(
        (entry.driver, condition.type)
        for claim in claims
        for entry in claim.status.devices
        for condition in entry.conditions
    )


def claim_state(
    name: str, ref: str, claim: ResourceClaim | None, said: SaidConditions, patience: BindingDeadline
) -> ClaimStage:
    """Return the state of a claim.

    Args:
        name: the pod's name for it.
        ref: its `namespace/name`; empty if unknown.
        claim: the claim, if it exists.
        said: conditions that a controller sets.
        patience: deadline for binding conditions.
    """
    if claim is None:
        return ClaimStage(name, ref, "missing")
    if claim.allocation is None:
        return ClaimStage(name, ref, "pending")
    found, unready = readiness(claim, patience)
    results = tuple(result.id for result in claim.results)
    if found is ConditionReadiness.READY:
        return ClaimStage(name, ref, "ready", results)
    state = _STATES[found]
    return ClaimStage(
        name,
        ref,
        state,
        results,
        claim.allocation.allocation_timestamp,
        patience.deadline(claim),
        patience.now,
        tuple(_device(each, said, failed=state == "failed") for each in unready),
    )


def _device(each: Unready, said: SaidConditions, *, failed: bool) -> DeviceState:
    unserved = () if failed else tuple(kind for kind in each.pending if (each.device.driver, kind) not in said)
    return DeviceState(each.device, str(each), each.pending, tuple(c.type for c in each.failed), unserved)
