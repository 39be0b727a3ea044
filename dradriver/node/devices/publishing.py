"""Create the publisher of a node's plugin, and run it while this instance is elected.

The controller keeps the wanted pools between two elections. Another instance writes the slices in between.
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
    """The part of `dradriver.publish.PublishController` that a plugin uses; a fake implements only this."""

    def want(self, pools: Sequence[Pool]) -> None:
        """Replace all wanted pools; returns immediately."""
        ...

    async def run(self) -> None:
        """Publish until canceled; it may be called again after that."""
        ...


PublisherMaker: TypeAlias = Callable[[OnDropped, OnStatus], NodePublisher]


def publisher_of(client: Api, driver: str, node: str, origin: str = "") -> PublisherMaker:
    """Return a function that creates a driver's publisher; it needs the real client, which can watch.

    Args:
        client: the API server.
        driver: the driver's name.
        node: the node's name.
        origin: the origin of its pools, as in `PublishController`.
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
    """Return the recorder of a driver's events; it needs the real client, which can create objects."""
    return EventRecorder(cast(Client, client), driver, node, BURST)


async def publish_in_turn(publisher: NodePublisher, news: PoolNews) -> None:
    """Publish, and write the status file of the pools, until canceled.

    Args:
        publisher: the node's publisher, which reports to `news`.
        news: forgets the pools at the end, because another instance reports them from then on.
    """
    file = asyncio.create_task(news.keep_file(), name="pool status")
    try:
        await publisher.run()
    finally:
        await end({file})
        news.forget()
