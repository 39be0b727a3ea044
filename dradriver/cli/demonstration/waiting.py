"""Waits until objects of the cluster meet a condition, with a watch where possible and polling otherwise."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from dradriver.errors import DraError
from dradriver.kube import ApiError, Client, Gone, Resource, Unavailable, WatchKind

__all__ = ["deadline", "wait_for_deletion", "wait_for_object", "wait_for_output"]

T = TypeVar("T")

_POLL_SECONDS = 0.1


@asynccontextmanager
async def deadline(
    what: str, seconds: float, why: Callable[[], Awaitable[str]] | None = None
) -> AsyncIterator[None]:
    """Limit the time of the `async with` block.

    Args:
        what: the expected event, for the error message.
        seconds: the time limit.
        why: returns the reason for the error message; None: the message has no reason.

    Yields:
        Nothing.

    Raises:
        DraError: the block did not end within the time limit.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        reason = await why() if why else ""
        raise DraError(
            f"{what} did not happen within {seconds:g} s" + (f": {reason}" if reason else "")
        ) from None


async def wait_for_object(
    client: Client,
    resource: Resource,
    kind: type[T],
    matches: Callable[[T], bool],
    namespace: str = "",
    *,
    after: str = "",
) -> T:
    """Wait for an object for which `matches` is true, and return it as it was then.

    Args:
        client: client of the cluster.
        resource: the resource.
        kind: type of the decoded objects.
        matches: the condition.
        namespace: the namespace; empty for all.
        after: a resource version; all changes after it are considered, also those that are over. If it is
            empty, or the server no longer has these changes, the present objects and later changes are.
    """
    while True:
        if not after:
            listing = await client.list(resource, namespace, into=kind)
            for item in listing.items:
                if matches(item):
                    return item
            after = listing.resource_version
        try:
            changes = client.watch(resource, namespace, into=kind, resource_version=after)
            async for event in changes:
                if event.kind is not WatchKind.DELETED and event.object is not None and matches(event.object):
                    return event.object
        except Gone:
            after = ""
        except Unavailable:
            continue


async def wait_for_deletion(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    """Wait until no object has this name.

    Args:
        client: client of the cluster.
        resource: the resource.
        name: name of the object.
        namespace: namespace of the object; empty for a cluster-scoped object.
    """
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


async def wait_for_output(client: Client, pod: str, namespace: str, matches: Callable[[str], bool]) -> str:
    """Wait until `matches` is true for the output of the pod's container, and return the output. Polls logs.

    Args:
        client: client of the cluster.
        pod: name of the pod.
        namespace: namespace of the pod.
        matches: the condition.
    """
    while True:
        try:
            text = await client.logs(pod, namespace)
        except ApiError:
            text = ""  # the container has not started yet
        if matches(text):
            return text
        await asyncio.sleep(_POLL_SECONDS)
