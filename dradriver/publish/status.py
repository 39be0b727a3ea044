"""The types for the decision about a pool and for the status of a pool."""

from dataclasses import dataclass
from enum import StrEnum

from dradriver.model.resource.pool import Pool
from dradriver.publish.features.dropped_fields import DroppedField

__all__ = ["NodeRef", "PoolDecision", "PoolState", "PoolStatus", "Writes"]


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The publisher's node. If `uid` is empty, it is looked up, and a re-created Node is detected."""

    name: str
    uid: str = ""


class PoolState(StrEnum):
    """The state of a pool."""

    PENDING = "pending"
    """The pool is not yet published as wanted. Attempts continue."""
    PUBLISHED = "published"
    """The pool is published as wanted. The server may drop harmless fields; see `dropped`."""
    HELD = "held"
    """Claims hold devices, so their counter sets and all consumers of these stay. The rest is published."""
    REFUSED = "refused"
    """The pool breaks rules, or the server rejected it. The pool that was published before stays."""
    FALLBACK = "fallback"
    """The server drops fields without which the pool is unsafe, so the driver's fallback is published."""
    UNSAFE_WITHDRAWN = "unsafe_withdrawn"
    """Only safe devices are published: the server drops taints, or fields for which there is no fallback."""
    REMOVED = "removed"
    """The last state: the pool is no longer wanted, and no slice of it is published."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The number of writes of a pool so far. Dry runs are not counted."""

    creates: int = 0
    updates: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """The decision of one attempt about a pool.

    Attributes:
        state: the pool's state after the attempt.
        pool: the pool to publish.
        message: why the pool is not published as wanted.
        dropped: the fields that the wanted pool uses and the server drops.
        held_by: the claims for which changes of the pool wait.
        retry_seconds: seconds until the next attempt. None: the next attempt follows only after a change.
    """

    state: PoolState
    pool: Pool | None = None
    message: str = ""
    dropped: frozenset[DroppedField] = frozenset()
    held_by: tuple[str, ...] = ()
    retry_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The status of one pool.

    Attributes:
        pool: the name of the pool.
        state: the state of the pool.
        generation: the published generation; 0 if no slice is published.
        slices: the number of published slices.
        devices: the number of devices in the published slices.
        message: why the pool is not published as wanted, with the server's message if there is one.
        dropped: the fields that the server did not store, and the gate that is probably off.
        held_by: the claims (`namespace/name`) for which changes of the pool wait.
        writes: the number of writes so far.
    """

    pool: str
    state: PoolState = PoolState.PENDING
    generation: int = 0
    slices: int = 0
    devices: int = 0
    message: str = ""
    dropped: frozenset[DroppedField] = frozenset()
    held_by: tuple[str, ...] = ()
    writes: Writes = Writes()
