"""`coordination.k8s.io/v1` Lease, and the rules of leader election between processes.

The rules are those of client-go. A leader renews its lease. It must stop at the renew deadline. The deadline is
counted from the start of the last renewal that the API server confirmed. Every other process counts the lease
duration from the last change of the lease that it observed. Each process uses its own clock, so no two clocks
are compared. The renew deadline is shorter than the lease duration, so the leader has stopped before another
process starts to lead.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value

__all__ = ["Candidate", "Lease", "LeaseSpec", "LeaseTiming"]

_RELEASED_SECONDS: Final = 1


class LeaseSpec(Value, frozen=True, kw_only=True):
    """The fields of `coordination.v1.LeaseSpec` that leader election uses. The times are only for users.

    Attributes:
        holder_identity: identity of the leader; empty if there is none.
        lease_duration_seconds: how long the lease is valid without a renewal.
        acquire_time, renew_time: times in RFC 3339 with microseconds.
        lease_transitions: how often the leader has changed.
    """

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Value, frozen=True, kw_only=True):
    """`coordination.v1.Lease`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The durations of a lease. Their proportions are those of Kubernetes (15 s, 10 s, 2 s).

    Attributes:
        duration: whole seconds for which a lease is valid without a renewal.
    """

    duration: int = 15

    @property
    def renew_deadline(self) -> float:
        """Return the seconds after the last renewal at which a leader must stop."""
        return self.duration * 2 / 3

    @property
    def kill_deadline(self) -> float:
        """Return the seconds after the last renewal at which a leader is killed if it still runs.

        A write that begins before the renew deadline may last until this time. The rest of the duration covers
        delays in the network and differences between the clocks of two processes.
        """
        return self.duration * 5 / 6

    @property
    def retry_period(self) -> float:
        """Return the seconds between two attempts to acquire or renew the lease."""
        return self.duration * 2 / 15


class Candidate:
    """One process in leader election: it records the observed lease and computes the lease to write.

    Args:
        identity: the identity of the process. It must never be used by another process.
        timing: the durations of the lease.
    """

    def __init__(self, identity: str, timing: LeaseTiming) -> None:
        self._identity = identity
        self._timing = timing
        self._observed: LeaseSpec | None = None
        self._observed_at = 0.0

    @property
    def holder(self) -> str:
        """Return the holder that was last observed."""
        return self._observed.holder_identity if self._observed else ""

    def observe(self, spec: LeaseSpec, now: float) -> None:
        """Record the lease that was read. `now` is the time of this process's clock."""
        if spec != self._observed:
            self._observed, self._observed_at = spec, now

    def claim(self, now: float, time: datetime) -> LeaseSpec | None:
        """Return the spec with which this process becomes or stays the leader; None while another one leads.

        Args:
            now: the time of this process's clock.
            time: the time for `acquire_time` and `renew_time`.
        """
        observed = self._observed or LeaseSpec()
        is_holder = observed.holder_identity == self._identity
        duration = max(observed.lease_duration_seconds, self._timing.duration)
        if observed.holder_identity and not is_holder and now < self._observed_at + duration:
            return None
        now_text = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._timing.duration,
            acquire_time=observed.acquire_time if is_holder else now_text,
            renew_time=now_text,
            lease_transitions=observed.lease_transitions + (0 if is_holder or self._observed is None else 1),
        )

    def release(self) -> LeaseSpec | None:
        """Return the spec that releases the lease; None if this process does not hold it."""
        observed = self._observed
        if observed is None or observed.holder_identity != self._identity:
            return None
        return LeaseSpec(
            lease_duration_seconds=_RELEASED_SECONDS,
            acquire_time=observed.renew_time,
            renew_time=observed.renew_time,
            lease_transitions=observed.lease_transitions,
        )
