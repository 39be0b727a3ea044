"""The values that the parts of one publisher share during one run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.kube import Client
from dradriver.model.resource.pool import Pool
from dradriver.publish.features.api_features import ServerFeatures
from dradriver.publish.features.dropped_fields import DroppedField
from dradriver.publish.holds.allocation_lookup import AllocationLookup
from dradriver.publish.holds.published_counters import PublishedCounters
from dradriver.publish.own_slices import OwnSlices
from dradriver.publish.owner import SliceOwner
from dradriver.publish.status import PoolStatus

__all__ = ["OnDropped", "OnStatus", "PublishContext"]

OnDropped: TypeAlias = Callable[[str, frozenset[DroppedField]], Awaitable[Sequence[Pool] | None]]
"""Called with a pool's name and the dropped fields without which the pool is unsafe. Returns fallback pools:
the one with that name is published instead. None: there is no fallback.
"""

OnStatus: TypeAlias = Callable[[PoolStatus], None]
"""Called after each attempt to publish a pool."""


@dataclass(frozen=True, slots=True)
class PublishContext:
    """Shared by all pools of a publisher, for one run.

    Attributes:
        client: the API server.
        driver: the driver's name.
        node: the publisher's node. None in the control plane.
        slices: the publisher's slices as they are on the server.
        owner: the owner reference for new slices.
        features: the fields that the server stores and drops.
        allocation_lookup: returns the claims that hold devices.
        on_dropped: returns the driver's fallback pools.
        wake_all: makes every pool worker try again.
        report: receives a pool's new status.
        published: by pool, its last published counters. They are kept when the pool is removed, because it may
            return.
        origin: the place of the pools' definition; the end of the message about an invalid pool.
    """

    client: Client
    driver: str
    node: str | None
    slices: OwnSlices
    owner: SliceOwner
    features: ServerFeatures
    allocation_lookup: AllocationLookup
    on_dropped: OnDropped | None
    wake_all: Callable[[], None]
    report: OnStatus
    published: dict[str, PublishedCounters] = field(default_factory=dict)
    origin: str = ""

    def recall(self, pool: str) -> PublishedCounters:
        """Return a pool's last published counters; before this run's first write, an earlier process's."""
        known = self.published.get(pool)
        if known is None:
            known = self.published[pool] = PublishedCounters(self.slices.of(pool))
        return known
