"""The publisher of a node's plugin: what makes it, and one turn of it.

The controller keeps what is wanted from turn to turn; another instance writes the slices in between.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, cast

from dradriver.aio.tasks import end
from dradriver.kube.client import Client
from dradriver.kube.events import EventRecorder
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.reporting.events import BURST
from dradriver.node.reporting.pool_reports import PoolNews
from dradriver.publish import NodeRef, OnDropped, OnStatus, PublishController

__all__ = ["NodePublisher", "PublisherMaker", "publish_in_turn", "publisher_of", "recorder_of"]


class NodePublisher(Protocol):
    """The part of `dradriver.publish.PublishController` that a plugin uses; a fake needs no more."""

    def want(self, pools: Sequence[Pool]) -> None:
        """Replaces everything that is wanted; returns at once."""
        ...

    async def run(self) -> None:
        """Publishes until cancelled; may be called again then."""
        ...


PublisherMaker: TypeAlias = Callable[[OnDropped, OnStatus], NodePublisher]


def publisher_of(client: Api, driver: str, node: str, origin: str = "") -> PublisherMaker:
    """Makes the publisher of a driver on its node; it needs the real client, which can watch.

    Args:
        client: the API server.
        driver: the driver's name.
        node: the node's name.
        origin: where its pools come from, as `PublishController` takes it.
    """
    return lambda on_dropped, on_status: PublishController(
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


async def publish_in_turn(publisher: NodePublisher, news: PoolNews) -> None:
    """Publishes, and keeps the status file of the pools, until cancelled: one turn of this instance.

    Args:
        publisher: the node's publisher; it reports to `news`.
        news: forgets the pools at the end of the turn, because another instance reports them from then on.
    """
    file = asyncio.create_task(news.keep_file(), name="pool status")
    try:
        await publisher.run()
    finally:
        await end({file})
        news.forget()
