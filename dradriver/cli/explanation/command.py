"""The commands of `dradriver explain`."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TypeVar, cast

import click

from dradriver.cli.attempt import AttemptSettings, settings_options
from dradriver.cli.explanation.answers import Question, explain_claim, explain_pod
from dradriver.cli.explanation.report import Explanation
from dradriver.cli.terminal.output import document, output_option, prose
from dradriver.cli.world import WorldSource, world_options
from dradriver.control.scheduler.binding_conditions import BINDING_TIMEOUT, BindingDeadline

__all__ = ["explain"]

F = TypeVar("F", bound=Callable[..., object])


@click.group(short_help="Explain why a pod or a claim waits, node by node.")
def explain() -> None:
    """Explain why a pod or a claim waits: its claims, and what each node has for them.

    Asks the cluster, or takes its objects from files.
    """


def _options(command: F) -> F:
    @wraps(command)
    def gather(
        *args: object,
        binding_timeout: float,
        node: str,
        settings: AttemptSettings,
        source: WorldSource,
        **rest: object,
    ) -> object:
        patience = BindingDeadline(
            datetime.now(UTC),
            timedelta(seconds=binding_timeout),
            enabled=settings.features.binding_conditions,
        )
        return command(*args, question=Question(source.read(), settings, patience, node), **rest)

    timeout = click.option(
        "--binding-timeout",
        type=click.FloatRange(min=0),
        default=BINDING_TIMEOUT.total_seconds(),
        show_default=True,
        help="Seconds that the cluster's scheduler waits for binding conditions; it does not tell.",
    )
    where = click.option("-n", "--namespace", help="Namespace.  [default: the context's; 'default' in files]")
    one = click.option("--node", default="", help="Look at this node only.")
    options = where(one(timeout(settings_options(world_options(output_option(gather))))))
    return cast(F, click.argument("name")(options))


@explain.command("pod", short_help="Explain what a pod waits for.")
@_options
def pod(name: str, namespace: str | None, output: str, question: Question) -> None:
    """Explain what the pod NAME waits for: claims, conditions, and what each node lacks."""
    _say(explain_pod(question, f"{namespace or question.world.namespace}/{name}"), output)


@explain.command("claim", short_help="Explain how far a claim is, and what nodes have for it.")
@_options
def claim(name: str, namespace: str | None, output: str, question: Question) -> None:
    """Explain how far the ResourceClaim NAME is, and what each node has for it."""
    _say(explain_claim(question, f"{namespace or question.world.namespace}/{name}"), output)


def _say(found: Explanation, output: str) -> None:
    if output != "table":
        document(found.document(), output)
        return
    prose(found.lines())
