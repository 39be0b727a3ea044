"""Access of commands to a cluster: shared options, and one event loop for each command."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import click

from dradriver.kube import Client

__all__ = ["Access", "cluster_options", "with_client"]

_SECONDS: Final = 5.0
"""Time limit of one call with its retries. It is short because a person waits."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster and an identity."""

    kubeconfig: str | None
    context: str | None


def cluster_options(command: F) -> F:
    """Add the options `--kubeconfig` and `--context`."""
    context = click.option(
        "--context", envvar="DRADRIVER_CONTEXT", help="Context of the kubeconfig.  [default: its current one]"
    )
    kubeconfig = click.option(
        "--kubeconfig",
        envvar="DRADRIVER_KUBECONFIG",
        help="Kubeconfig file.  [default: $KUBECONFIG, the pod's service account, ~/.kube/config]",
    )
    return kubeconfig(context(command))


def with_client(access: Access, ask: Callable[[Client], Awaitable[T]]) -> T:
    """Connect to the API server, run `ask` with the client, and return its result."""

    async def converse() -> T:
        async with await Client.connect(access.kubeconfig, access.context, timeout=_SECONDS) as client:
            return await ask(client)

    return asyncio.run(converse())
