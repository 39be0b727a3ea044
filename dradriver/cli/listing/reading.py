"""Reads the objects of a list from a cluster, and selects rows."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import click
import msgspec

from dradriver.cli.listing.options import Query
from dradriver.cli.listing.rows import Kind, ListedObjects, ListRow, ListSource
from dradriver.errors import DraError, InvalidObjectError, NotFoundError
from dradriver.kube import Client, Forbidden, Listing, NotFound, Resource

__all__ = [
    "check_names",
    "complete_document",
    "field_selector",
    "read_documents",
    "read_objects",
    "select_rows",
    "where",
]

T = TypeVar("T")


def where(client: Client, source: ListSource, query: Query) -> str:
    """Return the namespace to read a collection from; empty for all namespaces.

    Args:
        client: client of the cluster.
        source: the collection.
        query: the query.
    """
    if not (source.is_namespaced and source.resource.namespaced):
        return ""
    return client.namespace if query.namespace is None else query.namespace


def field_selector(kind: Kind, query: Query) -> str:
    """Return the field selector for the main collection. One wanted name becomes a part of it.

    Args:
        kind: the kind of list.
        query: the query.
    """
    name = f"metadata.name={query.names[0]}" if kind.is_api and len(query.names) == 1 else ""
    return ",".join(filter(None, (query.fields, name)))


async def read_objects(client: Client, kind: Kind, query: Query) -> ListedObjects:
    """Read all collections of a list.

    Args:
        client: client of the cluster.
        kind: the kind of list.
        query: selectors and namespace.

    Raises:
        ApiError: a collection that is not optional cannot be read.
    """

    async def read(source: ListSource) -> Sequence[object] | None:
        try:
            listing = (
                await _read_main(client, kind, query, source.kind)
                if source is kind.main
                else await client.list(source.resource, where(client, source, query), into=source.kind)
            )
        except (NotFound, Forbidden) as error:
            if not source.is_optional:
                raise
            if source.warns and isinstance(error, Forbidden):
                click.echo(f"Warning: {error}", err=True)
            return None
        _warn(listing)
        return listing.items

    results = await asyncio.gather(*map(read, kind.sources))
    read_ones: dict[Resource, Sequence[Any]] = {
        source.resource: items for source, items in zip(kind.sources, results, strict=True) if items is not None
    }
    return await kind.enrich(client, ListedObjects(read_ones))


async def read_documents(client: Client, kind: Kind, query: Query) -> list[dict[str, object]]:
    """Read the objects of the main collection as the API server has them.

    Args:
        client: client of the cluster.
        kind: a kind whose rows are objects of the API.
        query: names, selectors and namespace.
    """
    listing = await _read_main(client, kind, query, bytes)
    _warn(listing)
    return [
        document
        for document in (complete_document(kind.main.resource, each) for each in listing.items)
        if not query.names or _name(document) in query.names
    ]


async def _read_main(client: Client, kind: Kind, query: Query, into: type[T]) -> Listing[T]:
    """Read the main collection. Objects are read by name where possible: a user may get but not list them."""
    resource, namespace = kind.main.resource, where(client, kind.main, query)
    is_place_known = bool(namespace) or not resource.namespaced
    if not (kind.is_api and query.names and is_place_known) or query.labels or query.fields:
        fields = field_selector(kind, query)
        return await client.list(resource, namespace, into=into, labels=query.labels, fields=fields)
    found: list[T] = []
    unreadable: dict[str, DraError] = {}
    for name in dict.fromkeys(query.names):
        try:
            found.append(await client.get(resource, name, namespace, into=into))
        except NotFound:
            continue  # `check_names` names all missing objects
        except InvalidObjectError as error:
            unreadable[name] = error
    return Listing(found, "", unreadable)


def _warn(listing: Listing[Any]) -> None:
    for problem in listing.unreadable.values():
        click.echo(f"Warning: {problem}", err=True)


def complete_document(resource: Resource, text: bytes) -> dict[str, object]:
    """Return an object with `apiVersion` and `kind`, which the API server omits in the items of a list.

    Args:
        resource: the object's collection.
        text: the object as JSON.
    """
    document = cast(dict[str, object], msgspec.json.decode(text))
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


def _name(document: Mapping[str, object]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def select_rows(kind: Kind, query: Query, objects: ListedObjects) -> list[ListRow]:
    """Return the rows that have a wanted name.

    Args:
        kind: the kind of list.
        query: the wanted names.
        objects: the objects that were read.
    """
    rows = kind.rows(objects, datetime.now(UTC))
    return [row for row in rows if not query.names or not set(query.names).isdisjoint(row.names)]


def check_names(kind: Kind, query: Query, found: Iterable[Sequence[str]]) -> None:
    """Check that each wanted name was found.

    Args:
        kind: the kind of list.
        query: the wanted names.
        found: the names of each selected row.

    Raises:
        NotFoundError: a name was not found.
    """
    known = {name for names in found for name in names}
    missing = [name for name in query.names if name not in known]
    if missing and not query.ignore_not_found:
        place = f" in namespace {query.namespace}" if query.namespace else ""
        raise NotFoundError("; ".join(f'{kind.plural} "{name}" not found{place}' for name in missing))
