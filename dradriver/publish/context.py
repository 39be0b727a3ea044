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
"""Called with a pool's name and the dropped fields without which the pool is unsafe.

Returns fallback pools. The fallback pool with this name is published instead of the wanted pool. None: no
fallback.
"""

OnStatus: TypeAlias = Callable[[PoolStatus], None]
"""Called after each attempt to publish a pool."""


@dataclass(frozen=True, slots=True)
class PublishContext:
    """The values that all pools of a publisher share during one run.

    Attributes:
        client: the API server.
        driver: the driver's name.
        node: the publisher's node. None in the control plane.
        slices: the publisher's slices as they are on the server.
        owner: the owner reference for new slices.
        features: the fields that the server stores and drops.
        allocation_lookup: returns the claims that hold devices.
        on_dropped: takes a pool's name and the dropped fields, and returns the driver's fallback pools.
        wake_all: makes every pool worker try again.
        report: receives a pool's new status.
        published: by pool name, the counters that were last published. They are kept when a pool is removed,
            because the pool may return.
        origin: the location of the pools' definition. It is appended to the message about an invalid pool.
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
        """Return a pool's last published counters. At the first call they come from the stored slices."""
        known = self.published.get(pool)
        if known is None:
            known = self.published[pool] = PublishedCounters(self.slices.of(pool))
        return known
