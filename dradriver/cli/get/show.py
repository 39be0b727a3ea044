"""Shared parts of the commands of `get`: sources of rows, and output formats."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar, cast

import click
import msgspec

from dradriver.cli.cluster_access import Access, with_client
from dradriver.cli.terminal.output import document, table
from dradriver.cli.world import list_typed
from dradriver.kube import Client, Resource

__all__ = ["View", "namespace_options", "show_rows"]

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
Object = dict[str, object]
_API_VERSION = "dradriver/v1"


def namespace_options(command: F) -> F:
    """Add the options `-n/--namespace` and `-A/--all-namespaces`.

    Args:
        command: the command. It gets the arguments `namespace`, which can be None, and `all_namespaces`.

    Returns:
        The command with the options.
    """
    every = click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces.")
    one = click.option("-n", "--namespace", help="Namespace.  [default: the context's]")
    return one(every(command))


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """Output of the objects of one resource.

    Attributes:
        resource: the resource.
        kind: type to which objects are decoded for the table.
        columns: names of the table's columns, in lower case.
        row: returns the cells of an object. Its arguments are the object and the present time.
        empty: message if no object exists.
        enrich: adds information to the objects before they are shown in a table.
    """

    resource: Resource
    kind: type[T]
    columns: Sequence[str]
    row: Callable[[T, datetime], list[str]]
    empty: str
    enrich: Callable[[Client, Sequence[T]], Awaitable[list[T]]] | None = None

    def show(self, access: Access, form: str, namespace: str | None = "") -> None:
        """List and show the objects: as a table, or as a `List` of the cluster's own objects.

        Args:
            access: the cluster.
            form: `table`, `json` or `yaml`.
            namespace: namespace of the objects; empty: all namespaces; None: the kubeconfig's namespace.
        """

        def where(client: Client) -> str:
            return client.namespace if namespace is None else namespace

        async def objects(client: Client) -> list[bytes]:
            return (await client.list(self.resource, where(client), into=bytes)).items

        async def values(client: Client) -> list[T]:
            listed = await list_typed(client, self.resource, self.kind, where(client))
            return listed if self.enrich is None else await self.enrich(client, listed)

        if form == "table":
            self.show_table(with_client(access, values))
        else:
            self.show_list(with_client(access, objects), form)

    def show_table(self, values: Iterable[T]) -> None:
        """Show objects as a table.

        Args:
            values: the objects.
        """
        now = datetime.now(UTC)
        table(self.columns, (self.row(each, now) for each in values), empty=self.empty)

    def show_list(self, raw: Iterable[bytes], form: str) -> None:
        """Show objects as a `List`.

        Args:
            raw: JSON texts of the objects.
            form: `json` or `yaml`.
        """
        items = [cast(Object, msgspec.json.decode(text)) for text in raw]
        for item in items:
            # The API server omits `apiVersion` and `kind` in the items of a list.
            item.setdefault("apiVersion", self.resource.api_version)
            item.setdefault("kind", self.resource.kind)
        document({"apiVersion": "v1", "kind": "List", "items": items}, form)


def show_rows(
    kind: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]], form: str, empty: str
) -> None:
    """Show rows as a table, or as a document of `dradriver/v1`.

    Args:
        kind: kind of the document, such as `PoolList`.
        columns: fields to show as columns of the table, with their names written as words: the column
            `allocated to` shows the field `allocatedTo`.
        rows: fields of each row, by name. The document contains all fields.
        form: `table`, `json` or `yaml`.
        empty: message if there are no rows.
    """
    if form != "table":
        document({"apiVersion": _API_VERSION, "kind": kind, "items": [dict(row) for row in rows]}, form)
        return
    table(columns, ([_cell(row.get(_field(column))) for column in columns] for row in rows), empty=empty)


def _field(column: str) -> str:
    first, *rest = column.split()
    return first + "".join(word.capitalize() for word in rest)


def _cell(value: object) -> str:
    if value in (None, "", [], {}):
        return "-"
    match value:
        case list():
            return ",".join(map(str, value))
        case dict():
            return ",".join(f"{key}={_plain(item)}" for key, item in value.items())
        case _:
            return _plain(value)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
