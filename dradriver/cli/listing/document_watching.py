"""Finds changed objects of the API as they come, for `-w` with `-o json` and other formats of documents."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from dradriver.cli.listing.options import Query
from dradriver.cli.listing.reading import check_names, complete_document, field_selector, where
from dradriver.cli.listing.rows import Kind
from dradriver.kube import Client, Gone, Unavailable
from dradriver.kube.backoff import Backoff

__all__ = ["follow_documents"]

_RETRY_SECONDS: Final = (0.1, 5.0)
Document = Mapping[str, object]


async def follow_documents(
    client: Client, kind: Kind, query: Query, show: Callable[[Sequence[Document]], None]
) -> None:
    """Call `show` with the objects of a list, and again with each changed object, until the task is cancelled.

    Args:
        client: client of the cluster.
        kind: a kind whose rows are objects of the API.
        query: names, selectors and namespace.
        show: called with the objects to print. A deleted object is printed once more.

    Raises:
        ApiError: the collection cannot be read.
        NotFoundError: a wanted name does not exist.
    """
    resource, namespace = kind.main.resource, where(client, kind.main, query)
    fields = field_selector(kind, query)
    known: dict[str, str] = {}
    is_first = True
    backoff = Backoff(*_RETRY_SECONDS)
    while True:
        try:
            listing = await client.list(resource, namespace, into=bytes, labels=query.labels, fields=fields)
            documents = [complete_document(resource, each) for each in listing.items]
            changed = [each for each in documents if _is_wanted(query, each) and _is_new(known, each)]
            if is_first:
                check_names(kind, query, ([_metadata(each)["name"]] for each in changed))
            if changed and not (is_first and query.watch_only):
                show(changed)
            is_first, version = False, listing.resource_version
            while True:
                watch = client.watch(
                    resource,
                    namespace,
                    into=bytes,
                    labels=query.labels,
                    fields=fields,
                    resource_version=version,
                )
                async with aclosing(watch) as events:
                    async for event in events:
                        backoff.reset()
                        version = event.head.resource_version or version
                        if event.object is None:
                            continue
                        document = complete_document(resource, event.object)
                        if _is_wanted(query, document) and _is_new(known, document):
                            show([document])
                await asyncio.sleep(backoff.next())
        except (Gone, Unavailable):
            if is_first:
                raise
            await asyncio.sleep(backoff.next())


def _is_wanted(query: Query, document: Document) -> bool:
    return not query.names or _metadata(document)["name"] in query.names


def _is_new(known: dict[str, str], document: Document) -> bool:
    """Return whether this version of the object was not printed yet, and remember the version."""
    metadata = _metadata(document)
    key, version = f"{metadata['namespace']}/{metadata['name']}", metadata["resourceVersion"]
    is_new = known.get(key) != version
    known[key] = version
    return is_new


def _metadata(document: Document) -> Mapping[str, str]:
    metadata = document.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return {name: str(fields.get(name, "")) for name in ("name", "namespace", "resourceVersion")}
