"""`coordination.k8s.io/v1` Lease, and the rules of leader election between processes.

The rules are those of client-go. A leader renews its lease. It stops at the renew deadline, counted from before
the last renewal that the API server confirmed. Every other process counts the lease duration from its last
observed change of the lease, with its own clock. So no two clocks are compared. The deadline is shorter than
the duration, so the leader has stopped before another process starts to lead.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value

__all__ = ["Candidate", "Lease", "LeaseSpec", "LeaseTiming"]

_RELEASED_SECONDS: Final = 1


class LeaseSpec(Value, frozen=True, kw_only=True):
    """The fields of `coordination.v1.LeaseSpec` that leader election uses; the times are only informative.

    Attributes:
        holder_identity: identity of the leader; empty if there is none.
        lease_duration_seconds: how long the lease is valid without a renewal.
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
    """The timing of a lease; the proportions are those of Kubernetes (15 s, 10 s, 2 s).

    Attributes:
        duration: whole seconds for which a lease is valid without a renewal.
    """

    duration: int = 15

    @property
    def renew_deadline(self) -> float:
        """Return the seconds after the last renewal at which a leader stops."""
        return self.duration * 2 / 3

    @property
    def last_moment(self) -> float:
        """Return the seconds after the last renewal at which a leader that has not stopped yet is ended."""
        return self.duration * 5 / 6

    @property
    def retry_period(self) -> float:
        """Return the seconds between two attempts to acquire or renew."""
        return self.duration * 2 / 15


class Candidate:
    """The state of one process in leader election: what it observed, and what it writes next.

    Args:
        identity: the process's identity, never reused.
        timing: the timing of its lease.
    """

    def __init__(self, identity: str, timing: LeaseTiming) -> None:
        self._identity = identity
        self._timing = timing
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0

    @property
    def holder(self) -> str:
        """Return the last observed holder."""
        return self._seen.holder_identity if self._seen else ""

    def see(self, spec: LeaseSpec, now: float) -> None:
        """Record that the lease was read at the time `now` of this process's clock."""
        if spec != self._seen:
            self._seen, self._seen_at = spec, now

    def claim(self, now: float, time: datetime) -> LeaseSpec | None:
        """Return the spec to write to become or stay the leader; None while another process's lease is valid.

        Args:
            now: time of this process's clock.
            time: time for the informative fields.
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
        """Return the spec to write after the process stopped leading; None if it does not lead."""
        seen = self._seen
        if seen is None or seen.holder_identity != self._identity:
            return None
        return LeaseSpec(
            lease_duration_seconds=_RELEASED_SECONDS,
            acquire_time=seen.renew_time,
            renew_time=seen.renew_time,
            lease_transitions=seen.lease_transitions,
        )
