"""What the workers of one publisher share."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.kube import Client
from dradriver.model.resource.pool import Pool
from dradriver.publish.features.api_features import Features
from dradriver.publish.features.dropped_fields import DroppedField
from dradriver.publish.holds.allocation_lookup import Holders
from dradriver.publish.holds.published_counters import PublishedCounters
from dradriver.publish.own_slices import OwnSlices
from dradriver.publish.owner import SliceOwner
from dradriver.publish.status import PoolStatus

__all__ = ["Desk", "OnDropped"]

OnDropped: TypeAlias = Callable[
    [str, frozenset[DroppedField]], Sequence[Pool] | Awaitable[Sequence[Pool] | None] | None
]
"""Asked with a pool's name and the dropped fields without which it is unsafe; answers with fallback pools, of
which the one of that name is published instead."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Shared by all pools of a publisher.

    Attributes:
        client: the API server.
        driver: the driver's name.
        node: the publisher's node, None in the control plane.
        slices: the publisher's slices as they are on the server.
        owner: the owner reference for new ones.
        features: what the server stores and drops.
        holders: who holds a device.
        on_dropped: asked for a fallback.
        wake_all: makes every pool look again.
        report: takes a pool's new status.
        published: by pool, what was last published of it; it outlives the pool, which may come back.
        origin: where the pools come from, as the message about one that breaks rules ends.
    """

    client: Client
    driver: str
    node: str | None
    slices: OwnSlices
    owner: SliceOwner
    features: Features
    holders: Holders
    on_dropped: OnDropped | None
    wake_all: Callable[[], None]
    report: Callable[[PoolStatus], None]
    published: dict[str, PublishedCounters] = field(default_factory=dict)
    origin: str = ""
