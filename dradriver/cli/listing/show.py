"""Answers a query: reads, selects, sorts and prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from dradriver.cli.cluster_access import Access, with_client
from dradriver.cli.listing.collecting import add_part
from dradriver.cli.listing.document_watching import follow_documents
from dradriver.cli.listing.options import Query
from dradriver.cli.listing.printing import (
    columns_of,
    print_documents,
    print_each,
    print_list,
    print_rows,
    row_cells,
    row_name,
    sort_keys,
    with_type,
)
from dradriver.cli.listing.reading import check_names, read_documents, read_objects, select_rows
from dradriver.cli.listing.rows import Kind, ListedObjects, ListRow
from dradriver.cli.listing.watching import follow
from dradriver.cli.terminal.output import table
from dradriver.errors import UsageError
from dradriver.kube import Client

__all__ = ["ListPart", "print_parts", "show_files", "show_list", "watch_list"]

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ListPart:
    """The list of one of several kinds.

    Attributes:
        kind: the kind of list.
        query: the query.
        rows: the rows; empty if the output format needs none.
        documents: the documents; empty if the output format needs none.
    """

    kind: Kind
    query: Query
    rows: Sequence[ListRow]
    documents: Sequence[Document]


def show_list(kind: Kind, query: Query, access: Access) -> None:
    """List and print objects of a cluster.

    Args:
        kind: the kind of list.
        query: what to list and how to print it.
        access: the cluster.

    Raises:
        DraError: the cluster does not answer, a wanted name does not exist, or the query is invalid.
    """
    if query.watch:
        with_client(access, lambda client: watch_list(client, kind, query))
        return

    async def read(client: Client) -> tuple[list[ListRow], list[Document]]:
        needs_rows = not kind.is_api or query.form.is_table or query.form.name == "name"
        needs_documents = kind.is_api and (bool(query.sort_by) or not needs_rows)
        rows = select_rows(kind, query, await read_objects(client, kind, query)) if needs_rows else []
        documents: list[Document] = [*(await read_documents(client, kind, query))] if needs_documents else []
        return rows, documents

    _print(kind, query, *with_client(access, read))


def show_files(kind: Kind, query: Query, objects: ListedObjects, documents: Sequence[Document]) -> None:
    """Print objects that were read from files.

    Args:
        kind: the kind of list, whose rows are objects of the API.
        query: what to list and how to print it.
        objects: the decoded objects.
        documents: the objects of the main collection.

    Raises:
        DraError: a wanted name does not exist, or the query cannot be answered from files.
    """
    for option, value in (("-l", query.labels), ("--field-selector", query.fields), ("-w", query.watch)):
        if value:
            raise UsageError(f"{option} needs a cluster: leave it out, or leave out -f")
    wanted = [each for each in documents if not query.names or _ref(each).partition("/")[2] in query.names]
    _print(kind, query, select_rows(kind, query, objects), wanted)


def _print(kind: Kind, query: Query, rows: list[ListRow], documents: list[Document]) -> None:
    if not kind.is_api:
        documents = [row.document for row in rows]
    if query.is_one_of_several and not query.form.is_table:
        add_part(ListPart(kind, query, rows, documents))
        check_names(kind, query, _found(rows, documents))
        return
    is_list = query.form.is_table or query.form.name == "name"
    if query.sort_by and kind.is_api:
        keys = dict(zip(map(_ref, documents), sort_keys(query, documents), strict=True))
        documents = sorted(documents, key=lambda each: keys[_ref(each)])
        # A row without a document was created or deleted between the two requests.
        rows = sorted((row for row in rows if row.key in keys), key=lambda row: keys[row.key])
    elif query.sort_by:
        order = sorted(zip(sort_keys(query, documents), range(len(rows)), strict=True))
        rows, documents = [rows[each] for _, each in order], [documents[each] for _, each in order]
    if not is_list:
        print_documents(kind, query, documents)
    elif rows or not query.names:
        print_rows(kind, query, rows)
    check_names(kind, query, _found(rows, documents))


def _found(rows: Sequence[ListRow], documents: Sequence[Document]) -> list[Sequence[str]]:
    return [row.names for row in rows] if rows else [(_ref(each).partition("/")[2],) for each in documents]


def print_parts(parts: Sequence[ListPart]) -> None:
    """Print the lists of several kinds as one list.

    Args:
        parts: the lists in the order of the command line.
    """
    query = parts[0].query
    if query.form.name == "name":
        for part in parts:
            print_rows(part.kind, query, part.rows)
        return
    documents = [with_type(part.kind, each) for part in parts for each in part.documents]
    if query.sort_by:
        order = sorted(zip(sort_keys(query, documents), range(len(documents)), strict=True))
        documents = [documents[number] for _, number in order]
    if documents or not query.ignore_not_found:
        print_list(query.form, documents, head=query.head)


def _ref(document: Document) -> str:
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


async def watch_list(client: Client, kind: Kind, query: Query) -> None:
    """Print a list, then each change, until the task is cancelled.

    Args:
        client: client of the cluster.
        kind: the kind of list.
        query: what to list and how to print it.

    Raises:
        DraError: the collection cannot be read, or a wanted name does not exist.
    """
    if query.sort_by:
        click.echo("Warning: -w prints changes as they come: --sort-by is ignored", err=True)
    is_first = True

    def print_changed(documents: Sequence[Document]) -> None:
        nonlocal is_first
        for number, each in enumerate(documents):
            is_head = is_first and number == 0
            print_each(query.form, [each], head=query.head and is_head, separate=not is_head)
        is_first = is_first and not documents

    def print_change(rows: Sequence[ListRow], all_rows: Sequence[ListRow]) -> None:
        nonlocal is_first
        if query.form.name == "name":
            for row in rows:
                click.echo(row_name(kind, row))
        elif query.form.is_table:
            columns = columns_of(kind, query)
            cells = [row_cells(columns, row) for row in rows]
            aligned_with = [row_cells(columns, row) for row in all_rows]
            table(columns, cells, empty="", head=query.head and is_first, aligned_with=aligned_with)
            is_first = False
        else:
            print_changed([row.document for row in rows])

    if kind.is_api and not query.form.is_table and query.form.name != "name":
        await follow_documents(client, kind, query, print_changed)
    else:
        await follow(client, kind, query, print_change)
