"""Kinds of lists, and their rows."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

from dradriver.kube import Client, Resource

__all__ = ["Kind", "ListRow", "ListSource", "ListedObjects", "document_row"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListSource:
    """A collection of the API that a list reads.

    Attributes:
        resource: the collection.
        kind: type of the decoded objects.
        is_optional: whether the list works without the collection, for example if the user may not read it.
        is_namespaced: whether only the objects of the query's namespace are read.
        warns: whether a user who may not read an optional collection sees a warning.
    """

    resource: Resource
    kind: type[Any]
    is_optional: bool = False
    is_namespaced: bool = False
    warns: bool = False


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """The objects that a list was made from, by collection.

    Attributes:
        read: objects of each collection that was read.
    """

    read: Mapping[Resource, Sequence[Any]]

    def get(self, resource: Resource, kind: type[T]) -> Sequence[T]:  # noqa: ARG002 - the type of the result
        """Return the objects of a collection; empty if it was not read.

        Args:
            resource: the collection.
            kind: type of its objects.
        """
        return cast(Sequence[T], self.read.get(resource, ()))

    def has(self, resource: Resource) -> bool:
        """Return whether a collection was read.

        Args:
            resource: the collection.
        """
        return resource in self.read

    def replace(self, resource: Resource, objects: Sequence[object]) -> "ListedObjects":
        """Return the objects with those of one collection replaced.

        Args:
            resource: the collection.
            objects: its objects.
        """
        return ListedObjects({**self.read, resource: objects})


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row of a list.

    Attributes:
        key: identifies the row, such as `namespace/name`.
        names: names by which a user can select the row.
        cells: text of each column.
        labels: labels of the object.
        document: the fields for `-o json`; empty for objects of the API, whose document is the object.
    """

    key: str
    names: Sequence[str]
    cells: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, object] = field(default_factory=dict)


async def _keep(client: Client, objects: ListedObjects) -> ListedObjects:  # noqa: ARG001 - the default of `enrich`
    return objects


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of list.

    Attributes:
        noun: the singular, for messages and `-o name`.
        plural: the plural.
        columns: columns of the table.
        wide: columns of `-o wide`.
        sources: the collections that the list reads. The first is the main collection; selectors apply to it.
        rows: makes the rows. Its arguments are the objects and the present time.
        empty: message if there are no rows.
        is_api: whether each row is an object of the main collection.
        document_kind: kind of the document for `-o json`.
        enrich: adds information to the objects before they become rows.
    """

    noun: str
    plural: str
    columns: Sequence[str]
    wide: Sequence[str]
    sources: Sequence[ListSource]
    rows: Callable[[ListedObjects, datetime], Iterable[ListRow]]
    empty: str
    is_api: bool = True
    document_kind: str = "List"
    enrich: Callable[[Client, ListedObjects], Awaitable[ListedObjects]] = _keep

    @property
    def main(self) -> ListSource:
        """The collection that selectors apply to."""
        return self.sources[0]


def document_row(
    key: str, names: Sequence[str], columns: Sequence[str], document: Mapping[str, object]
) -> ListRow:
    """Return the row of a document of `dradriver/v1`. Its fields are the columns.

    Args:
        key: identifies the row.
        names: names by which a user can select the row.
        columns: names of fields, written as words: the column `allocated to` is the field `allocatedTo`.
        document: the fields. The document can have more fields than columns.
    """
    cells = {column: _cell(document.get(_field(column))) for column in columns}
    return ListRow(key, names, cells, document=document)


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
