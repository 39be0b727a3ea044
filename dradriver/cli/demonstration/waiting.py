"""Waits for conditions of the cluster's objects, with a watch where possible and polling otherwise."""

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
    """Limit the time of the `async with` block, and report what did not happen in time.

    Raises:
        DraError: the time is over. Its message has the result of `why`, if given.
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
    """Return the first object for which `holds` is true, now or later."""
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
    """Return when there is no object with this name any more."""
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
    """Return the output of the pod's container when `holds` is true for it.

    Logs cannot be watched, so they are polled.
    """
    while True:
        try:
            text = await client.logs(pod, namespace)
        except ApiError:
            text = ""  # not started yet
        if holds(text):
            return text
        await asyncio.sleep(_POLL_SECONDS)
