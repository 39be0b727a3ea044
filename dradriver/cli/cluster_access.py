"""Access to a cluster: options, and a client that lives for one command."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Final, TypeVar, cast

import click

from dradriver.cli.node_folders import default_data_folder
from dradriver.errors import NotFoundError
from dradriver.kube import Client

__all__ = ["Access", "cluster_options", "with_client"]

_TIMEOUT_SECONDS: Final = 5.0
"""Time limit of one call with its retries. It is short because a user waits."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster and an identity.

    Attributes:
        kubeconfig: path of a kubeconfig file; None for the default files.
        context: name of a context in the kubeconfig file; None for the current context of that file.
    """

    kubeconfig: str | None
    context: str | None


def cluster_options(command: F) -> F:
    """Add the options `--kubeconfig` and `--context`.

    Args:
        command: the command. It gets the argument `access`, an `Access`.

    Returns:
        The command with the options.
    """

    @wraps(command)
    def call(*args: object, kubeconfig: str | None, context: str | None, **rest: object) -> object:
        return command(*args, access=Access(kubeconfig, context), **rest)

    context_option = click.option(
        "--context",
        envvar="DRADRIVER_CONTEXT",
        help="Context of the kubeconfig.  [$DRADRIVER_CONTEXT; default: the current context]",
    )
    kubeconfig_option = click.option(
        "--kubeconfig",
        envvar="DRADRIVER_KUBECONFIG",
        help="Kubeconfig file.  [$DRADRIVER_KUBECONFIG; default: $KUBECONFIG, the pod's service account, "
        "~/.kube/config]",
    )
    return cast(F, kubeconfig_option(context_option(call)))


def with_client(access: Access, call: Callable[[Client], Awaitable[T]]) -> T:
    """Connect to the API server, run a function with the client, and close the connection.

    Args:
        access: the cluster.
        call: the function.

    Returns:
        The result of the function.

    Raises:
        DraError: the kubeconfig cannot be read, or the API server does not answer within 5 s.
    """

    async def run() -> T:
        async with await _connect(access) as client:
            return await call(client)

    return asyncio.run(run())


async def _connect(access: Access) -> Client:
    try:
        return await Client.connect(access.kubeconfig, access.context, timeout=_TIMEOUT_SECONDS)
    except NotFoundError as error:
        if access.kubeconfig is not None:
            raise
        if embedded := await asyncio.to_thread(_find_embedded_kubeconfig):
            hint = f"export KUBECONFIG={embedded} for the cluster of `dradriver up`"
        else:
            hint = "`dradriver up` starts a cluster and writes a kubeconfig"
        raise NotFoundError(f"{error}: {hint}") from error


def _find_embedded_kubeconfig() -> Path | None:
    path = default_data_folder() / "kubeconfig"
    return path if path.exists() else None
