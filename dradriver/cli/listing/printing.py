"""Prints rows and documents in the formats of `-o`."""

from collections.abc import Mapping, Sequence

import click

from dradriver.cli.jsonpath import find_values, parse_template, relax_expression, render
from dradriver.cli.listing.forms import OutputForm
from dradriver.cli.listing.options import Query
from dradriver.cli.listing.rows import Kind, ListRow
from dradriver.cli.terminal.output import document, table
from dradriver.errors import UsageError

__all__ = [
    "columns_of",
    "print_documents",
    "print_each",
    "print_list",
    "print_rows",
    "row_cells",
    "row_name",
    "sort_keys",
    "with_type",
]

_API_VERSION = "dradriver/v1"


def columns_of(kind: Kind, query: Query) -> list[str]:
    """Return the columns of the table.

    Args:
        kind: the kind of list.
        query: the output format.
    """
    shown = kind.wide if query.form.name == "wide" else kind.columns
    return [*shown, *(["labels"] if query.show_labels else [])]


def row_cells(columns: Sequence[str], row: ListRow) -> list[str]:
    """Return the cells of a row.

    Args:
        columns: the columns of the table.
        row: the row.
    """
    labels = ",".join(f"{key}={value}" for key, value in sorted(row.labels.items()))
    return [row.cells.get(column) or (labels if column == "labels" else "") or "-" for column in columns]


def row_name(kind: Kind, row: ListRow) -> str:
    """Return the name that `-o name` prints: `pod/a`, or `resourceclaim.resource.k8s.io/b`.

    Args:
        kind: the kind of list.
        row: the row.
    """
    if not kind.is_api:
        return f"{kind.noun}/{row.key}"
    resource = kind.main.resource
    suffix = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{suffix}/{row.names[0]}"


def print_rows(kind: Kind, query: Query, rows: Sequence[ListRow]) -> None:
    """Print rows as a table or as names.

    Args:
        kind: the kind of list.
        query: the output format.
        rows: the rows in order.
    """
    if query.form.name == "name":
        for row in rows:
            click.echo(row_name(kind, row))
        return
    columns = columns_of(kind, query)
    table(columns, [row_cells(columns, row) for row in rows], empty=kind.empty, head=query.head)


def print_documents(kind: Kind, query: Query, documents: Sequence[Mapping[str, object]]) -> None:
    """Print documents as JSON, YAML, by a JSONPath template or in columns of the user's choice.

    As in kubectl, one wanted name gives the object itself, otherwise the document is a list.

    Args:
        kind: the kind of list.
        query: the output format.
        documents: the documents in order.
    """
    is_single = len(query.names) == 1
    if not documents and (is_single or query.ignore_not_found):
        return
    if (is_single and len(documents) == 1) or query.form.name == "custom-columns":
        print_each(query.form, documents, head=query.head)
    elif kind.is_api:
        print_list(query.form, documents, head=query.head)
    else:
        items = [dict(each) for each in documents]
        _print_whole(query.form, {"apiVersion": _API_VERSION, "kind": kind.document_kind, "items": items})


def print_list(form: OutputForm, documents: Sequence[Mapping[str, object]], *, head: bool = True) -> None:
    """Print documents as a `List`, or in columns of the user's choice.

    Args:
        form: the output format.
        documents: the documents in order.
        head: whether columns have a head.
    """
    if form.name == "custom-columns":
        print_each(form, documents, head=head)
        return
    items = [dict(each) for each in documents]
    # The metadata are those that kubectl writes.
    whole = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}
    _print_whole(form, whole)


def print_each(
    form: OutputForm, documents: Sequence[Mapping[str, object]], *, head: bool = True, separate: bool = False
) -> None:
    """Print documents one after the other.

    Args:
        form: the output format.
        documents: the documents in order.
        head: whether columns have a head.
        separate: whether a separator stands before each YAML document.
    """
    if form.name == "custom-columns":
        _print_columns(form.template, documents, head=head)
        return
    for each in documents:
        if separate and form.name == "yaml":
            click.echo("---")
        _print_whole(form, dict(each))


def with_type(kind: Kind, each: Mapping[str, object]) -> Mapping[str, object]:
    """Return a document with `apiVersion` and `kind`, for a list of several kinds.

    Args:
        kind: the kind of list.
        each: the document.
    """
    if kind.is_api:
        return each
    return {"apiVersion": _API_VERSION, "kind": kind.document_kind.removesuffix("List"), **each}


def _print_whole(form: OutputForm, whole: Mapping[str, object]) -> None:
    if form.name == "jsonpath":
        click.echo(render(parse_template(_braced(form.template)), whole), nl=False)
    else:
        document(whole, form.name)


def _braced(template: str) -> str:
    return template if "{" in template else relax_expression(template)


def _print_columns(text: str, documents: Sequence[Mapping[str, object]], *, head: bool) -> None:
    pairs = [each.partition(":") for each in text.split(",")]
    if not all(name and path for name, _, path in pairs):
        raise UsageError(f"-o custom-columns={text}: must be NAME:PATH, separated by commas")
    paths = [parse_template(relax_expression(path)) for _, _, path in pairs]
    rows = [[_cell(find_values(path, each)) for path in paths] for each in documents]
    table([name.lower() for name, _, _ in pairs], rows, empty="", head=head)


def _cell(values: Sequence[object]) -> str:
    path = parse_template("{@}")
    return ",".join(render(path, value) for value in values) or "<none>"


def sort_keys(query: Query, documents: Sequence[Mapping[str, object]]) -> list[tuple[bool, bool, float, str]]:
    """Return a key for each document, by which `--sort-by` sorts. Documents without the field come first.

    Args:
        query: the JSONPath expression.
        documents: the documents.

    Raises:
        UsageError: the expression is invalid, or no document has the field.
    """
    path = parse_template(relax_expression(query.sort_by))
    values = [next(iter(find_values(path, each)), None) for each in documents]
    if documents and all(value is None for value in values):
        raise UsageError(f"--sort-by {query.sort_by}: no object has this field")
    return [_sort_key(value) for value in values]


def _sort_key(value: object) -> tuple[bool, bool, float, str]:
    if isinstance(value, (int, float)):
        return True, False, float(value), ""
    return value is not None, True, 0.0, "" if value is None else render(parse_template("{@}"), value)
