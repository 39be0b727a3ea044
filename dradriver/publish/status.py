"""The decision about each pool, and its status."""

from dataclasses import dataclass
from enum import StrEnum

from dradriver.model.resource.pool import Pool
from dradriver.publish.features.dropped_fields import DroppedField

__all__ = ["NodeRef", "PoolDecision", "PoolState", "PoolStatus", "Writes"]


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The publisher's node; without a `uid` it is looked up, and a re-created Node is detected."""

    name: str
    uid: str = ""


class PoolState(StrEnum):
    """State of a pool."""

    PENDING = "pending"
    """It is not yet as wanted; attempts continue."""
    PUBLISHED = "published"
    """The API server has it as wanted (harmless fields may be dropped, see `dropped`)."""
    HELD = "held"
    """Counter sets of devices that claims hold, and their consumers, stay unchanged; the rest is published."""
    REFUSED = "refused"
    """It breaks rules, or the server rejected it; the earlier published pool stays."""
    FALLBACK = "fallback"
    """The server dropped fields without which it is unsafe: the driver's fallback is published."""
    UNSAFE_WITHDRAWN = "unsafe_withdrawn"
    """As above, without a fallback, or taints are dropped: only devices that are safe without are published."""
    REMOVED = "removed"
    """It is no longer wanted, and nothing of it is published: its last state."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The number of writes of a pool so far; dry runs are not counted."""

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
        held_by: claims that it waits for.
        again: seconds until the next attempt. None if only a change makes it necessary.
    """

    state: PoolState
    pool: Pool | None = None
    message: str = ""
    dropped: frozenset[DroppedField] = frozenset()
    held_by: tuple[str, ...] = ()
    again: float | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The status of one pool.

    Attributes:
        pool: its name.
        state: its state.
        generation: the published generation. 0 if none is.
        slices: the number of published slices.
        devices: the number of devices in them.
        message: why the pool is not published as wanted, with the server's message if there is one.
        dropped: the fields that the server did not store, and the gate that is probably off.
        held_by: the claims that it waits for, `namespace/name`.
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
