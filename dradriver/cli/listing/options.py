"""Options of lists."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, TypeVar, cast

import click

from dradriver.cli.completion.candidates import completer
from dradriver.cli.listing.collecting import is_collecting
from dradriver.cli.listing.forms import FORMS, TABLE, OutputForm, parse_form
from dradriver.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "Query",
    "listing_options",
    "namespace_options",
    "selector_options",
    "unused_namespace_options",
    "unused_selector_options",
]

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to list and how to print it.

    Attributes:
        names: names of the wanted rows; empty: all.
        form: the output format.
        namespace: the namespace; empty: all namespaces; None: the kubeconfig's namespace.
        labels: a label selector.
        fields: a field selector.
        head: whether the table has a head.
        sort_by: a JSONPath expression; empty: the order of the list.
        show_labels: whether the table has the column `labels`.
        watch: whether to print changes until Ctrl-C.
        watch_only: whether to print only changes.
        ignore_not_found: whether a missing name is no error.
        is_one_of_several: whether the command line has several kinds. Their documents become one list.
    """

    names: tuple[str, ...] = ()
    form: OutputForm = TABLE
    namespace: str | None = ""
    labels: str = ""
    fields: str = ""
    head: bool = True
    sort_by: str = ""
    show_labels: bool = False
    watch: bool = False
    watch_only: bool = False
    ignore_not_found: bool = False
    is_one_of_several: bool = False


def listing_options(kind: str) -> Callable[[F], F]:
    """Add the argument `NAME` and the options of every list.

    Args:
        kind: plural of the kind, for the completion of names.

    Returns:
        A decorator. The command gets the argument `query`, a `Query`.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def call(  # noqa: PLR0913 - click passes options by name
            *args: object,
            name: tuple[str, ...],
            output: str,
            no_headers: bool,
            sort_by: str,
            watch: bool,
            watch_only: bool,
            ignore_not_found: bool,
            namespace: str | None = "",
            all_namespaces: bool = False,
            selector: str = "",
            field_selector: str = "",
            show_labels: bool = False,
            **rest: object,
        ) -> object:
            query = Query(
                names=name,
                form=parse_form(output),
                namespace="" if all_namespaces else namespace,
                labels=selector,
                fields=field_selector,
                head=not no_headers,
                sort_by=sort_by,
                show_labels=show_labels,
                watch=watch or watch_only,
                watch_only=watch_only,
                ignore_not_found=ignore_not_found,
                is_one_of_several=is_collecting(),
            )
            if query.watch and query.is_one_of_several:
                raise UsageError("-w watches one kind: type a command for each kind")
            return command(*args, query=query, **rest)

        options = (
            click.argument("name", nargs=-1, shell_complete=completer(kind)),
            click.option(
                "-o",
                "--output",
                metavar="FORM",
                default="table",
                show_default=True,
                shell_complete=_complete_forms,
                help=f"Output format: {', '.join(FORMS)}.",
            ),
            click.option("--no-headers", is_flag=True, help="Print no names of columns."),
            click.option("--sort-by", metavar="PATH", default="", help="Sort by this field, a JSONPath."),
            click.option("-w", "--watch", is_flag=True, help="Print the list, then changed rows until Ctrl-C."),
            click.option("--watch-only", is_flag=True, help="Print only changed rows, until Ctrl-C."),
            click.option("--ignore-not-found", is_flag=True, help="A name that does not exist is no error."),
        )
        decorated: Callable[..., object] = call
        for option in reversed(options):
            decorated = option(decorated)
        return cast(F, decorated)

    return decorate


def _complete_forms(
    ctx: click.Context,  # noqa: ARG001 - click's signature
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

    names = (form.partition("=")[0] + ("=" if "=" in form else "") for form in FORMS)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def namespace_options(command: F) -> F:
    """Add the options `-n/--namespace` and `-A/--all-namespaces`.

    Args:
        command: the command. It gets the arguments `namespace`, which can be None, and `all_namespaces`.

    Returns:
        The command with the options.
    """
    every = click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces.")
    one = click.option(
        "-n",
        "--namespace",
        shell_complete=completer("namespaces"),
        help="Namespace.  [default: the context's]",
    )
    return one(every(command))


def selector_options(command: F) -> F:
    """Add the options `-l/--selector`, `--field-selector` and `--show-labels`.

    Args:
        command: a command with `listing_options`.

    Returns:
        The command with the options.
    """
    labels = click.option(
        "-l",
        "--selector",
        metavar="LABELS",
        default="",
        help="Only objects with these labels, as app=a,tier!=b.",
    )
    fields = click.option(
        "--field-selector",
        metavar="FIELDS",
        default="",
        help="Only objects with these fields, as metadata.name=a.",
    )
    shown = click.option("--show-labels", is_flag=True, help="Add the column labels.")
    return labels(fields(shown(command)))


def unused_namespace_options(command: F) -> F:
    """Accept `-n` and `-A` without effect, as kubectl does for kinds without a namespace.

    Args:
        command: the command. It does not get the options.

    Returns:
        The command with the options, which its help text does not have.
    """
    every = click.option("-A", "--all-namespaces", is_flag=True, hidden=True, expose_value=False)
    one = click.option("-n", "--namespace", hidden=True, expose_value=False)
    return one(every(command))


def unused_selector_options(instead: str) -> Callable[[F], F]:
    """Reject `-l`, `--field-selector` and `--show-labels` with what to type instead.

    Args:
        instead: what to type.

    Returns:
        A decorator. The command does not get the options, and its help text does not have them.
    """

    def reject(ctx: click.Context, param: click.Parameter, value: object) -> None:  # noqa: ARG001 - click's signature
        if value:
            raise UsageError(f"{param.opts[0]} needs objects of the cluster's API: {instead}")

    def decorate(command: F) -> F:
        labels = click.option("-l", "--selector", hidden=True, expose_value=False, callback=reject)
        fields = click.option("--field-selector", hidden=True, expose_value=False, callback=reject)
        shown = click.option("--show-labels", is_flag=True, hidden=True, expose_value=False, callback=reject)
        return labels(fields(shown(command)))

    return decorate
