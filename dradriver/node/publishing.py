"""The publisher as the plugin uses it."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeAlias, cast

from dradriver.kube.client import Client
from dradriver.model.pool import Pool
from dradriver.node.api import Api
from dradriver.publish.dropped import DroppedField
from dradriver.publish.publisher import Publisher
from dradriver.publish.status import NodeRef

__all__ = ["OnDropped", "PublisherLike", "PublisherMaker", "publisher_of"]

OnDropped: TypeAlias = Callable[[str, Collection[DroppedField]], Awaitable[Sequence[Pool] | None]]
"""Is asked for other pools where the API server drops fields of the named pool."""


class PublisherLike(Protocol):
    """Makes the API server agree with the wanted pools; see `dradriver.publish.Publisher`."""

    def want(self, pools: Sequence[Pool]) -> None:
        """These pools are wanted; returns at once."""
        ...

    async def run(self) -> None:
        """Publishes until cancelled."""
        ...


PublisherMaker: TypeAlias = Callable[[OnDropped], PublisherLike]


def publisher_of(client: Api, driver: str, node: str) -> PublisherMaker:
    """Makes the publisher of a driver on its node; it needs the real client, which can watch."""
    return lambda on_dropped: Publisher(cast(Client, client), driver, node=NodeRef(node), on_dropped=on_dropped)
