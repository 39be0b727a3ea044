"""What is decided about each pool, and where it stands."""

from dataclasses import dataclass
from enum import StrEnum

from dradriver.model.resource.pool import Pool
from dradriver.publish.features.dropped_fields import DroppedField

__all__ = ["NodeRef", "PoolDecision", "PoolState", "PoolStatus", "Writes"]


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The publisher's node. With no `uid` it is looked up; a Node made anew under that name is noticed."""

    name: str
    uid: str = ""


class PoolState(StrEnum):
    """Where a pool stands."""

    PENDING = "pending"
    """It is not as wanted yet; it is being tried."""
    PUBLISHED = "published"
    """The API server has it as wanted (harmless fields may have been dropped, see `dropped`)."""
    HELD = "held"
    """Counter sets of devices that claims hold, and what consumes them, stay as they were; the rest goes on."""
    REFUSED = "refused"
    """It breaks rules, or the server said no; what was published before stays."""
    FALLBACK = "fallback"
    """The server dropped fields without which it is unsafe: the driver's fallback is published."""
    UNSAFE_WITHDRAWN = "unsafe_withdrawn"
    """The same without a fallback, or it dropped taints: only devices that are safe without are published."""
    REMOVED = "removed"
    """It is not wanted any more, and nothing of it is published: its last state."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The number of writes of a pool so far; dry runs are not counted."""

    creates: int = 0
    updates: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """What one try decides about a pool.

    Attributes:
        state: where the pool stands once the try is done.
        pool: what is published of it.
        message: why it is not simply published.
        dropped: the fields that the wanted pool uses and the server drops.
        held_by: claims that it waits for.
        again: seconds after which to try again, None if only a change makes that necessary.
    """

    state: PoolState
    pool: Pool | None = None
    message: str = ""
    dropped: frozenset[DroppedField] = frozenset()
    held_by: tuple[str, ...] = ()
    again: float | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool.

    Attributes:
        pool: its name.
        state: where it stands.
        generation: the published generation, 0 if none is.
        slices: how many slices are published.
        devices: how many devices are in them.
        message: why it is not simply published; the server's own words where there are any.
        dropped: what the server did not store, and the gate that is probably off.
        held_by: the claims that are waited for, `namespace/name`.
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
