"""Waiting for something to be true of the cluster's objects, without polling where it can be watched."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from dradriver.errors import DraError
from dradriver.kube import ApiError, Client, Gone, Resource, Unavailable, WatchKind

__all__ = ["deadline", "object_gone", "object_with", "text_of"]

T = TypeVar("T")

_POLL_SECONDS = 0.1


@asynccontextmanager
async def deadline(
    what: str, seconds: float, why: Callable[[], Awaitable[str]] | None = None
) -> AsyncIterator[None]:
    """Gives what happens inside a time, and says what did not happen in it.

    Raises:
        DraError: the time is over; `why` adds what is known of the reason.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        reason = await why() if why else ""
        raise DraError(
            f"{what} did not happen within {seconds:g} s" + (f": {reason}" if reason else "")
        ) from None


async def object_with(
    client: Client, resource: Resource, kind: type[T], holds: Callable[[T], bool], namespace: str = ""
) -> T:
    """The first object of which it is true, now or later."""
    while True:
        listing = await client.list(resource, namespace, into=kind)
        for item in listing.items:
            if holds(item):
                return item
        try:
            changes = client.watch(resource, namespace, into=kind, resource_version=listing.resource_version)
            async for event in changes:
                if event.kind is not WatchKind.DELETED and event.object is not None and holds(event.object):
                    return event.object
        except (Gone, Unavailable):
            continue


async def object_gone(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    """Returns when there is no object of this name any more."""
    while True:
        listing = await client.list(resource, namespace, into=dict)
        if all(item["metadata"]["name"] != name for item in listing.items):
            return
        try:
            changes = client.watch(resource, namespace, into=dict, resource_version=listing.resource_version)
            async for event in changes:
                if event.kind is WatchKind.DELETED and event.head.name == name:
                    return
        except (Gone, Unavailable):
            continue


async def text_of(client: Client, pod: str, namespace: str, holds: Callable[[str], bool]) -> str:
    """What the pod's container has printed, as soon as it is enough; logs can't be watched."""
    while True:
        try:
            text = await client.logs(pod, namespace)
        except ApiError:
            text = ""  # not started yet
        if holds(text):
            return text
        await asyncio.sleep(_POLL_SECONDS)
