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
_LIST = "dradriver/v1"


def namespace_options(command: F) -> F:
    """Add the options `-n/--namespace` and `-A/--all-namespaces`."""
    every = click.option("-A", "--all-namespaces", is_flag=True, help="Look into all namespaces.")
    one = click.option("-n", "--namespace", help="Namespace to look into.  [default: the context's]")
    return one(every(command))


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """Output of the objects of one resource.

    Attributes:
        resource: the resource.
        kind: type to which objects are decoded for the table.
        columns: head of the table.
        row: returns the cells of an object, given the present time.
        empty: message if there is no object.
        look_up: adds information to the objects before they are shown in a table.
    """

    resource: Resource
    kind: type[T]
    columns: Sequence[str]
    row: Callable[[T, datetime], list[str]]
    empty: str
    look_up: Callable[[Client, Sequence[T]], Awaitable[list[T]]] | None = None

    def show(self, access: Access, form: str, namespace: str | None = "") -> None:
        """List and show the objects: as a table, or as a `List` of the cluster's own objects.

        Args:
            access: the cluster.
            form: `table`, `json` or `yaml`.
            namespace: namespace of the objects; empty: all; None: the kubeconfig's namespace.
        """

        def where(client: Client) -> str:
            return client.namespace if namespace is None else namespace

        async def objects(client: Client) -> list[bytes]:
            return (await client.list(self.resource, where(client), into=bytes)).items

        async def values(client: Client) -> list[T]:
            found = await list_typed(client, self.resource, self.kind, where(client))
            return found if self.look_up is None else await self.look_up(client, found)

        if form == "table":
            now = datetime.now(UTC)
            table(self.columns, (self.row(e, now) for e in with_client(access, values)), empty=self.empty)
        else:
            self._document(with_client(access, objects), form)

    def _document(self, raw: Iterable[bytes], form: str) -> None:
        items = [cast(Object, msgspec.json.decode(text)) for text in raw]
        for item in items:
            # The API server omits these fields in the items of a list.
            item.setdefault("apiVersion", self.resource.api_version)
            item.setdefault("kind", self.resource.kind)
        document({"apiVersion": "v1", "kind": "List", "items": items}, form)


def show_rows(
    kind: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]], form: str, empty: str
) -> None:
    """Show rows as a table, or as a document of `dradriver/v1`. A column is a field name in words."""
    if form != "table":
        document({"apiVersion": _LIST, "kind": kind, "items": [dict(row) for row in rows]}, form)
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
