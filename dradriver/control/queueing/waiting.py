"""Pods that wait for binding conditions, and the conditions that no controller sets.

This module takes no decisions. If the process dies, it loses when each pod began to wait, and which events it
wrote. The wait itself is in the claims, except for the beginning of a wait for an allocation without a time.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dradriver.control.claims.pod_claims import pod_reference
from dradriver.control.runtime.actions import EmitEvent, NextAction, Step
from dradriver.control.scheduler.binding_conditions import BINDING_TIMEOUT, BindingDeadline, readiness
from dradriver.kube import Cache, ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["SeenConditions", "WaitingPods"]

_UNSERVED_AFTER: Final = timedelta(seconds=30)


class SeenConditions:
    """The condition types that a controller has set on this cluster, by driver, since this process started."""

    def __init__(self, claims: Cache[ResourceClaim]) -> None:
        self._seen: set[tuple[str, str]] = set()
        claims.subscribe(self._follow)

    def never_set(self, claims: Iterable[ResourceClaim]) -> list[str]:
        """Return the conditions that these claims wait for and that were never set, with their drivers."""
        missing = {
            (unready.device.driver, kind)
            for claim in claims
            for unready in readiness(claim, BindingDeadline())[1]
            for kind in unready.pending
        }
        return [f"{kind} of driver {driver}" for driver, kind in sorted(missing - self._seen)]

    def _follow(self, _kind: ChangeKind, _old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for entry in new.status.devices if new is not None else ():
            self._seen.update((entry.driver, condition.type) for condition in entry.conditions)


@dataclass(slots=True)
class _Wait:
    since: datetime
    warned: bool = False


class WaitingPods:
    """The pods that wait, and the events about each.

    Args:
        seen: the conditions that have a controller.
        timeout: how long after its allocation a claim is given up.
        enabled: whether binding conditions are evaluated at all.
    """

    def __init__(
        self, seen: SeenConditions, timeout: timedelta = BINDING_TIMEOUT, *, enabled: bool = True
    ) -> None:
        self.timeout = timeout
        self._enabled = enabled
        self._seen = seen
        self._waits: dict[str, _Wait] = {}
        self._since: dict[str, datetime] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._waits)

    def __contains__(self, key: str) -> bool:
        return key in self._waits

    def __len__(self) -> int:
        return len(self._waits)

    def patience(self) -> BindingDeadline:
        """Return the deadline for claims, as of now."""
        return BindingDeadline(datetime.now(UTC), self.timeout, dict(self._since), self._enabled)

    def forget(self, key: str) -> None:
        """Remove a pod that no longer waits."""
        self._waits.pop(key, None)

    def let_go(self, claim: ResourceClaim) -> None:
        """Forget the begin of the wait for a deallocated claim. Its next allocation starts a new wait."""
        self._since.pop(claim.metadata.uid, None)

    def go_on(self, key: str, pod: Pod, claims: Collection[ResourceClaim], step: Step) -> Step:
        """Return the step of a pod that has to wait. Each event is written once."""
        now = datetime.now(UTC)
        for claim in claims:
            if claim.allocation is not None and claim.allocation.allocation_timestamp is None:
                self._since.setdefault(claim.metadata.uid, now)
        wait = self._waits.get(key)
        if wait is None:
            wait = self._waits[key] = _Wait(now)
            # Changes from before the pod counted as waiting did not wake it, so the decision is repeated once.
            return Step(NextAction.AGAIN, step.action)
        deadline = step.deadline or wait.since + self.timeout
        look_at = wait.since + min(_UNSERVED_AFTER, self.timeout / 4)
        if wait.warned:
            return Step(NextAction.WAIT, deadline=deadline)
        if now < look_at:
            return Step(NextAction.WAIT, deadline=min(deadline, look_at))
        wait.warned = True
        missing = self._seen.never_set(claims)
        if not missing:
            return Step(NextAction.WAIT, deadline=deadline)
        message = f"nobody has ever set {', '.join(missing)} on this cluster: does its controller run?"
        said = EmitEvent(pod_reference(pod), "Warning", "BindingConditionsUnserved", message)
        return Step(NextAction.WAIT, said, deadline)
