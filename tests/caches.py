"""Waits for caches: each has a watch of its own, so an object may reach one of them later than another one."""

import asyncio
from typing import Any

from dradriver.kube import Cache, Client

__all__ = ["until_current"]

_POLL_SECONDS = 0.001


async def until_current(client: Client, *caches: Cache[Any]) -> None:
    """Wait until the caches have the objects of the API server.

    Args:
        client: client of the API server.
        caches: caches of all objects of their resources.
    """
    for cache in caches:
        while not await _is_current(client, cache):
            await asyncio.sleep(_POLL_SECONDS)


async def _is_current(client: Client, cache: Cache[Any]) -> bool:
    listing = await client.list(cache._resource, into=dict)
    stored: dict[str, int] = {}
    for each in listing.items:
        meta = each["metadata"]
        ref = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        stored[ref] = int(meta["resourceVersion"])
    cached = {ref: int(item.metadata.resource_version) for ref, item in cache.items.items()}
    lacks = any(version > cached.get(ref, 0) for ref, version in stored.items())
    newest = int(listing.resource_version)
    return not lacks and not any(ref not in stored and version <= newest for ref, version in cached.items())
