"""The publisher as the plugin uses it: a new one for each turn of this instance, with what is wanted now."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeAlias, cast

from dradriver.aio.tasks import end
from dradriver.kube.client import Client
from dradriver.kube.events import EventRecorder
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.reporting.events import BURST
from dradriver.node.reporting.pool_reports import PoolNews
from dradriver.publish.features.dropped_fields import DroppedField
from dradriver.publish.publisher import Publisher
from dradriver.publish.status import NodeRef, PoolStatus

__all__ = [
    "OnDropped",
    "OnStatus",
    "PublisherLike",
    "PublisherMaker",
    "Publishing",
    "publisher_of",
    "recorder_of",
]

OnDropped: TypeAlias = Callable[[str, Collection[DroppedField]], Awaitable[Sequence[Pool] | None]]
"""Is asked for other pools where the API server drops fields of the named pool."""

OnStatus: TypeAlias = Callable[[PoolStatus], None]
"""Is told of each try to publish a pool."""


class PublisherLike(Protocol):
    """Makes the API server agree with the wanted pools; see `dradriver.publish.Publisher`."""

    def want(self, pools: Sequence[Pool]) -> None:
        """These pools are wanted; returns at once."""
        ...

    async def run(self) -> None:
        """Publishes until cancelled."""
        ...


PublisherMaker: TypeAlias = Callable[[OnDropped, OnStatus], PublisherLike]


def publisher_of(client: Api, driver: str, node: str, origin: str = "") -> PublisherMaker:
    """Makes the publisher of a driver on its node; it needs the real client, which can watch.

    Args:
        client: the API server.
        driver: the driver's name.
        node: the node's name.
        origin: where its pools come from, as `Publisher` takes it.
    """
    return lambda on_dropped, on_status: Publisher(
        cast(Client, client),
        driver,
        node=NodeRef(node),
        on_dropped=on_dropped,
        on_status=on_status,
        origin=origin,
    )


def recorder_of(client: Api, driver: str, node: str) -> EventRecorder:
    """Writes a driver's events; it needs the real client, which can create."""
    return EventRecorder(cast(Client, client), driver, node, BURST)


class Publishing:
    """Publishes what is wanted whenever it is this instance's turn.

    A publisher runs once: it knows the slices as they were during its run, and others write them afterwards.

    Args:
        make: makes a publisher.
        on_dropped: is asked for fallback pools.
        news: is told what becomes of the pools.

    Attributes:
        publisher: the one that runs, or will in the next turn.
    """

    def __init__(self, make: PublisherMaker, on_dropped: OnDropped, news: PoolNews) -> None:
        self._make = make
        self._on_dropped = on_dropped
        self._news = news
        self._wanted: Sequence[Pool] | None = None
        self.publisher = make(on_dropped, news)

    def want(self, pools: Sequence[Pool]) -> None:
        """These pools are wanted, now and in later turns; returns at once."""
        self._wanted = pools
        self.publisher.want(pools)

    async def turn(self) -> None:
        """Publishes until cancelled; may be called again then."""
        file = asyncio.create_task(self._news.keep_file(), name="pool status")
        try:
            await self.publisher.run()
        finally:
            await end({file})
            self._news.forget()
            self.publisher = self._make(self._on_dropped, self._news)
            if self._wanted is not None:
                self.publisher.want(self._wanted)
