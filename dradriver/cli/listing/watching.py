"""Prints a list, then changed rows as they come, until Ctrl-C."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from dradriver.cli.listing.options import Query
from dradriver.cli.listing.reading import check_names, field_selector, read_objects, select_rows, where
from dradriver.cli.listing.rows import Kind, ListedObjects, ListRow
from dradriver.kube import Cache, Client, Resource

__all__ = ["changed_rows", "follow"]

_COALESCE_SECONDS: Final = 0.1
"""Changes within this time become one update. An update computes all rows."""
_SECONDS_BETWEEN_UPDATES: Final = 1.0
"""In a large cluster, objects change all the time, and an update takes about a second."""


async def follow(
    client: Client,
    kind: Kind,
    query: Query,
    show: Callable[[Sequence[ListRow], Sequence[ListRow]], None],
    *,
    pause: float = _SECONDS_BETWEEN_UPDATES,
) -> None:
    """Call `show` with the rows of a list, and again with each change of them, until the task is cancelled.

    Args:
        client: client of the cluster.
        kind: the kind of list.
        query: names, selectors and namespace.
        show: called with the rows to print and with all present rows. A deleted row is printed once more.
        pause: the shortest time between two updates, in seconds.

    Raises:
        ApiError: a collection that is not optional cannot be read.
        NotFoundError: a wanted name does not exist.
    """
    first = await read_objects(client, kind, query)  # shows which optional collections can be read
    check_names(kind, query, (row.names for row in select_rows(kind, query, first)))
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        caches: dict[Resource, Cache[Any]] = {}
        for source in kind.sources:
            if not first.has(source.resource):
                continue
            is_main = source is kind.main
            cache = Cache[Any](
                client,
                source.resource,
                source.kind,
                where(client, source, query),
                labels=query.labels if is_main else "",
                fields=field_selector(kind, query) if is_main else "",
            )
            cache.subscribe(lambda *_: changed.set())
            caches[source.resource] = await stack.enter_async_context(cache)
        for cache in caches.values():
            await cache.wait_answered()
            if cache.problem is not None and not cache.is_synced:
                raise cache.problem
        known: Mapping[str, ListRow] = {}
        is_first = True
        while True:
            changed.clear()
            present = {resource: list(cache.items.values()) for resource, cache in caches.items()}
            objects = await kind.enrich(client, ListedObjects(present))
            rows = {row.key: row for row in select_rows(kind, query, objects)}
            to_print = changed_rows(known, rows)
            if to_print and not (is_first and query.watch_only):
                show(to_print, list(rows.values()))
            known, is_first, updated = rows, False, loop.time()
            await changed.wait()
            await asyncio.sleep(max(min(_COALESCE_SECONDS, pause), updated + pause - loop.time()))


def changed_rows(old: Mapping[str, ListRow], new: Mapping[str, ListRow]) -> list[ListRow]:
    """Return the rows that were added, changed or deleted. A new age alone is no change.

    Args:
        old: the rows by key, before.
        new: the rows by key, now.
    """
    changed = [row for key, row in new.items() if key not in old or _content(old[key]) != _content(row)]
    return [*changed, *(row for key, row in old.items() if key not in new)]


def _content(row: ListRow) -> object:
    return (
        {column: cell for column, cell in row.cells.items() if column != "age"},
        dict(row.labels),
        row.document,
    )
