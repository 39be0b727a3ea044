"""Create the publisher of a node's plugin, and run it while this instance is elected.

While another instance is elected and writes the slices, the publisher keeps its wanted pools.
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
from dradriver.node.reporting.pool_reports import PoolReporter
from dradriver.publish import NodeRef, OnDropped, OnStatus, PublishController

__all__ = ["NodePublisher", "PublisherFactory", "create_recorder", "publish_while_elected", "publisher_factory"]


class NodePublisher(Protocol):
    """The methods of `dradriver.publish.PublishController` that a plugin uses, and that a fake implements."""

    def want(self, pools: Sequence[Pool]) -> None:
        """Replace all wanted pools; returns immediately."""
        ...

    async def run(self) -> None:
        """Publish until canceled; may be called again after it was canceled."""
        ...


PublisherFactory: TypeAlias = Callable[[OnDropped, OnStatus], NodePublisher]


def publisher_factory(client: Api, driver: str, node: str, origin: str = "") -> PublisherFactory:
    """Return a function that creates a driver's publisher.

    Args:
        client: the API server's client. It must be a real client, because the publisher watches slices.
        driver: the driver's name.
        node: the node's name.
        origin: the origin of the driver's pools, as in `PublishController`.
    """
    return lambda on_dropped, on_status: PublishController(
        cast(Client, client),
        driver,
        node=NodeRef(node),
        on_dropped=on_dropped,
        on_status=on_status,
        origin=origin,
    )


def create_recorder(client: Api, driver: str, node: str) -> EventRecorder:
    """Return the recorder of a driver's events; `client` must be a real client, which can create objects."""
    return EventRecorder(cast(Client, client), driver, node, BURST)


async def publish_while_elected(publisher: NodePublisher, pool_reporter: PoolReporter) -> None:
    """Publish, and write the status file of the pools, until canceled.

    Args:
        publisher: the node's publisher, which reports to `pool_reporter`.
        pool_reporter: forgets the pools at the end, because the next elected instance reports them.
    """
    file = asyncio.create_task(pool_reporter.write_file(), name="pool status")
    try:
        await publisher.run()
    finally:
        await end({file})
        pool_reporter.forget()
