"""The commands of `dradriver explain`."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TypeVar, cast

import click

from dradriver.cli.attempt import AttemptSettings, settings_options
from dradriver.cli.completion import completer
from dradriver.cli.explanation.answers import Question, explain_claim, explain_pod
from dradriver.cli.explanation.live import ask_extender
from dradriver.cli.explanation.report import Explanation
from dradriver.cli.habits import explained_hint
from dradriver.cli.lazy_group import LazyCommand, LazyGroup
from dradriver.cli.terminal.output import document, output_option, prose
from dradriver.cli.world import WorldSource, world_options
from dradriver.control.scheduler.binding.binding_conditions import BINDING_TIMEOUT, BindingDeadline

__all__ = ["explain"]

F = TypeVar("F", bound=Callable[..., object])


class _ExplainedKinds(LazyGroup):
    def find_hint(self, program: str, words: list[str]) -> str:
        """Return what to type instead of a kind that `explain` does not have; empty if unknown."""
        return explained_hint(program, words)


@click.group(
    cls=_ExplainedKinds,
    table={
        "claim": LazyCommand(
            "explanation.command:claim", "Explain the state of a claim, and what each node offers."
        ),
        "pod": LazyCommand("explanation.command:pod", "Explain why a pod waits."),
    },
    short_help="Explain why a pod or a claim waits, for each node.",
    aliases={
        "po": "pod",
        "pods": "pod",
        "claims": "claim",
        "resourceclaim": "claim",
        "resourceclaims": "claim",
    },
)
def explain() -> None:
    """Explain why a pod or a claim waits: the state of its claims, and what each node offers.

    Reads the cluster, or its objects in files.
    """


def _options(kind: str) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        @wraps(command)
        def call(
            *args: object,
            binding_timeout: float,
            node: str,
            settings: AttemptSettings,
            source: WorldSource,
            **rest: object,
        ) -> object:
            binding_deadline = BindingDeadline(
                datetime.now(UTC),
                timedelta(seconds=binding_timeout),
                enabled=settings.features.binding_conditions,
            )
            return command(*args, question=Question(source.read(), settings, binding_deadline, node), **rest)

        timeout = click.option(
            "--binding-timeout",
            type=click.FloatRange(min=0),
            default=BINDING_TIMEOUT.total_seconds(),
            show_default=True,
            help="Time limit for binding conditions in seconds, as configured in the cluster's scheduler.",
        )
        where = click.option(
            "-n",
            "--namespace",
            shell_complete=completer("namespaces"),
            help="Namespace.  [default: the context's, or 'default' for files]",
        )
        one = click.option(
            "--node",
            default="",
            shell_complete=completer("nodes"),
            help="Check only this node.  [default: all]",
        )
        options = where(one(timeout(settings_options(world_options(output_option(call))))))
        return cast(F, click.argument("name", shell_complete=completer(kind))(options))

    return decorate


@click.command("pod", short_help="Explain why a pod waits.")
@click.option(
    "--extender",
    metavar="URL",
    help="Also ask the process of `dradriver scheduler run` at this address, such as http://127.0.0.1:9444 "
    "(kubectl port-forward), or https://HOST:PORT.",
)
@click.option("--ca-file", default="", help="With https: certificates (PEM) of the extender's authority.")
@click.option("--cert-file", default="", help="With https: client certificate (PEM).")
@click.option("--key-file", default="", help="With https: private key (PEM) of this client certificate.")
@_options("pods")
def pod(
    name: str,
    namespace: str | None,
    output: str,
    question: Question,
    extender: str | None,
    ca_file: str,
    cert_file: str,
    key_file: str,
) -> None:
    """Explain why the pod NAME waits: its claims, conditions, and what each node lacks."""
    ref = f"{namespace or question.world.namespace}/{name}"
    explanation = explain_pod(question, ref)
    if extender is not None:
        answer = ask_extender(extender, ref, ca_file=ca_file, cert_file=cert_file, key_file=key_file)
        remark = f"scheduler: {answer}"
        explanation = replace(explanation, remarks=(remark, *explanation.remarks))
    _print(explanation, output)


@click.command("claim", short_help="Explain the state of a claim, and what each node offers.")
@_options("claims")
def claim(name: str, namespace: str | None, output: str, question: Question) -> None:
    """Explain the state of the ResourceClaim NAME, and what each node offers for it."""
    _print(explain_claim(question, f"{namespace or question.world.namespace}/{name}"), output)


def _print(explanation: Explanation, output: str) -> None:
    if output != "table":
        document(explanation.document(), output)
        return
    prose(explanation.lines())
