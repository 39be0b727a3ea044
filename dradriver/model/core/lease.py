"""`coordination.k8s.io/v1` Lease, and the rules by which one process of several leads.

They are client-go's. A leader renews its lease and stops at the renew deadline, counted from before the
last renewal that the API server confirmed. Every other process counts the lease duration from when it saw
the lease change last, by its own clock: no two clocks are compared. As the deadline is shorter than the
duration, the leader has stopped before another one begins.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value

__all__ = ["Candidate", "Lease", "LeaseSpec", "LeaseTiming"]

_RELEASED_SECONDS: Final = 1


class LeaseSpec(Value, frozen=True, kw_only=True):
    """`coordination.v1.LeaseSpec`, the part that leader election uses; the times are for people.

    Attributes:
        holder_identity: who leads; empty when nobody does.
        lease_duration_seconds: how long the lease holds without a renewal.
        acquire_time, renew_time: RFC 3339 with microseconds.
        lease_transitions: how often the leader changed.
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
    """How long a lease holds, and when it is renewed; the proportions are Kubernetes' own (15 s, 10 s, 2 s).

    Attributes:
        duration: seconds that a lease holds without a renewal; whole ones.
    """

    duration: int = 15

    @property
    def renew_deadline(self) -> float:
        """Seconds after the last renewal at which a leader stops."""
        return self.duration * 2 / 3

    @property
    def last_moment(self) -> float:
        """Seconds after the last renewal at which a leader that has not stopped yet is ended."""
        return self.duration * 5 / 6

    @property
    def retry_period(self) -> float:
        """Seconds between two tries to acquire or to renew."""
        return self.duration * 2 / 15


class Candidate:
    """What one process knows of a lease, and what it writes next.

    Args:
        identity: the process's, unique for all time.
        timing: how long its lease holds.
    """

    def __init__(self, identity: str, timing: LeaseTiming) -> None:
        self._identity = identity
        self._timing = timing
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0

    @property
    def holder(self) -> str:
        """Who held the lease when it was seen last."""
        return self._seen.holder_identity if self._seen else ""

    def see(self, spec: LeaseSpec, now: float) -> None:
        """The lease was read at a time of this process's clock."""
        if spec != self._seen:
            self._seen, self._seen_at = spec, now

    def claim(self, now: float, time: datetime) -> LeaseSpec | None:
        """What the process writes to lead, or to go on leading; None while another one's lease holds.

        Args:
            now: by this process's clock.
            time: for people.
        """
        seen = self._seen or LeaseSpec()
        mine = seen.holder_identity == self._identity
        holds = max(seen.lease_duration_seconds, self._timing.duration)
        if seen.holder_identity and not mine and now < self._seen_at + holds:
            return None
        told = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._timing.duration,
            acquire_time=seen.acquire_time if mine else told,
            renew_time=told,
            lease_transitions=seen.lease_transitions + (0 if mine or self._seen is None else 1),
        )

    def release(self) -> LeaseSpec | None:
        """What the process writes when it has stopped; None if it does not lead."""
        seen = self._seen
        if seen is None or seen.holder_identity != self._identity:
            return None
        return LeaseSpec(
            lease_duration_seconds=_RELEASED_SECONDS,
            acquire_time=seen.renew_time,
            renew_time=seen.renew_time,
            lease_transitions=seen.lease_transitions,
        )
