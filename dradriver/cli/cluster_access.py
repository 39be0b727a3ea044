"""How commands reach a cluster: shared options, and one event loop a command."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import click

from dradriver.kube import Client

__all__ = ["Access", "cluster_options", "with_client"]

_SECONDS: Final = 5.0
"""For one call, its retries included: a person waits for it."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Access:
    """Which cluster, as whom."""

    kubeconfig: str | None
    context: str | None


def cluster_options(command: F) -> F:
    """The options `--kubeconfig` and `--context`."""
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
    """Runs one conversation with the API server."""

    async def converse() -> T:
        async with await Client.connect(access.kubeconfig, access.context, timeout=_SECONDS) as client:
            return await ask(client)

    return asyncio.run(converse())
