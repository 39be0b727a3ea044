"""Handle pods that wait for binding conditions or for controllers, and report conditions that nobody sets.

If the process dies, it loses the time at which each pod began to wait, and the record of the events that it
wrote. The claims contain the deadline, unless an allocation has no timestamp: then the wait begins again.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dradriver.control.claims.pod_claims import pod_reference
from dradriver.control.runtime.actions import EmitEvent, NextAction, Step
from dradriver.control.scheduler.binding.binding_conditions import (
    BINDING_TIMEOUT,
    BindingDeadline,
    check_readiness,
)
from dradriver.kube import Cache, ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["SeenConditions", "WaitingPods"]

_WARN_AFTER: Final = timedelta(seconds=30)


class SeenConditions:
    """The condition types that controllers have set in this cluster since this process started, by driver."""

    def __init__(self, claims: Cache[ResourceClaim]) -> None:
        self._seen: set[tuple[str, str]] = set()
        claims.subscribe(self._update)

    def find_never_set(self, claims: Iterable[ResourceClaim]) -> list[str]:
        """Return the conditions that these claims wait for but no controller has set, with their drivers."""
        missing = {
            (unready.device.driver, kind)
            for claim in claims
            for unready in check_readiness(claim, BindingDeadline())[1]
            for kind in unready.pending
        }
        return [f"{kind} of driver {driver}" for driver, kind in sorted(missing - self._seen)]

    def _update(self, _kind: ChangeKind, _old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for entry in new.status.devices if new is not None else ():
            self._seen.update((entry.driver, condition.type) for condition in entry.conditions)


@dataclass(slots=True)
class _Wait:
    since: datetime
    warned: bool = False


class WaitingPods:
    """The pods that wait for binding conditions or for controllers, and the events about them.

    Args:
        seen: the conditions that a controller has set.
        timeout: the maximum time from the allocation of a claim until its conditions are True.
        enabled: whether binding conditions are evaluated.
    """

    def __init__(
        self, seen: SeenConditions, timeout: timedelta = BINDING_TIMEOUT, *, enabled: bool = True
    ) -> None:
        self.timeout = timeout
        self._enabled = enabled
        self._seen = seen
        self._waits: dict[str, _Wait] = {}
        self._since: dict[str, datetime] = {}
        self._selected: dict[str, datetime] = {}

    def __iter__(self) -> Iterator[str]:
        return iter({**self._waits, **self._selected})

    def __contains__(self, key: str) -> bool:
        return key in self._waits or key in self._selected

    def __len__(self) -> int:
        return len(self._waits.keys() | self._selected.keys())

    def deadline(self, key: str = "") -> BindingDeadline:
        """Return the current time and the data from which the deadlines are computed.

        Args:
            key: `namespace/name` of the pod of the decision. Empty: it waits for no controllers.
        """
        now, selected = datetime.now(UTC), self._selected.get(key)
        return BindingDeadline(now, self.timeout, dict(self._since), self._enabled, selected)

    def awaits_drivers(self, key: str) -> bool:
        """Return whether a pod waits for the controllers of its claims."""
        return key in self._selected

    def forget(self, key: str) -> None:
        """Remove a pod that no longer waits."""
        self._waits.pop(key, None)
        self._selected.pop(key, None)

    def end_driver_wait(self, key: str) -> None:
        """Record that the controllers have allocated the claims of a pod."""
        self._selected.pop(key, None)

    def driver_wait_step(self, key: str, step: Step) -> Step:
        """Return the step of a pod that must wait for controllers; the wait begins with the first call."""
        if key in self._selected:
            return step
        self._selected[key] = datetime.now(UTC)
        # Until now, changes did not return the pod to the queue, so the decision is repeated once.
        return Step(NextAction.CONTINUE, step.action)

    def forget_claim(self, claim: ResourceClaim) -> None:
        """Forget when the wait for a deallocated claim began; the claim's next allocation starts a new wait."""
        self._since.pop(claim.metadata.uid, None)

    def wait_step(self, key: str, pod: Pod, claims: Collection[ResourceClaim], step: Step) -> Step:
        """Return the step of a pod that must wait; each event is written once."""
        now = datetime.now(UTC)
        for claim in claims:
            if claim.allocation is not None and claim.allocation.allocation_timestamp is None:
                self._since.setdefault(claim.metadata.uid, now)
        wait = self._waits.get(key)
        if wait is None:
            wait = self._waits[key] = _Wait(now)
            # Until now, changes did not return the pod to the queue, so the decision is repeated once.
            return Step(NextAction.CONTINUE, step.action)
        deadline = step.deadline or wait.since + self.timeout
        warn_at = wait.since + min(_WARN_AFTER, self.timeout / 4)
        if wait.warned:
            return Step(NextAction.WAIT, deadline=deadline)
        if now < warn_at:
            return Step(NextAction.WAIT, deadline=min(deadline, warn_at))
        wait.warned = True
        never_set = self._seen.find_never_set(claims)
        if not never_set:
            return Step(NextAction.WAIT, deadline=deadline)
        message = f"binding conditions that no controller has set on this cluster: {', '.join(never_set)}"
        event = EmitEvent(pod_reference(pod), "Warning", "BindingConditionsUnserved", message)
        return Step(NextAction.WAIT, event, deadline)
