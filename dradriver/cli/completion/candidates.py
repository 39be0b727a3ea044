"""Names from the cluster for completion. If the cluster does not answer in time, there are no names."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from dradriver.kube import Client

__all__ = ["completer", "list_names"]

_TIMEOUT_SECONDS: Final = 2.0
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completer(kind: str) -> Completer:
    """Return a function that completes the names of a kind, for `shell_complete` of click.

    Args:
        kind: `claims`, `devices`, `drivers`, `namespaces`, `nodes`, `pods`, `pools` or `slices`.
    """

    def complete(
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG001 - click's signature
        incomplete: str,
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        given = ctx.params.get("name") or ()
        known = {given} if isinstance(given, str) else set(given)
        names = _read_quietly(kind, ctx.params)
        return [CompletionItem(name) for name in names if name.startswith(incomplete) and name not in known]

    return complete


def _read_quietly(kind: str, params: Mapping[str, object]) -> list[str]:
    logging.disable()  # a message would appear in the user's command line
    try:
        import dradriver.kube  # noqa: F401, PLC0415 - the time limit is for the cluster, not for the import

        return sorted(asyncio.run(asyncio.wait_for(_read(kind, params), _TIMEOUT_SECONDS)))
    except Exception:
        return []
    finally:
        logging.disable(logging.NOTSET)


async def _read(kind: str, params: Mapping[str, object]) -> set[str]:
    from dradriver.kube import Client  # noqa: PLC0415 - slow to import

    def text(name: str) -> str | None:
        value = params.get(name)
        return str(value) if value else None

    async with await Client.connect(text("kubeconfig"), text("context"), timeout=_TIMEOUT_SECONDS) as client:
        namespace = "" if params.get("all_namespaces") else text("namespace") or client.namespace
        return await list_names(client, kind, namespace)


async def list_names(client: "Client", kind: str, namespace: str) -> set[str]:
    """Return the names of a kind.

    Args:
        client: client of the cluster.
        kind: as for `completer`.
        namespace: the namespace of pods and claims; empty: all namespaces.

    Raises:
        ApiError: the objects cannot be listed.
    """
    return await _READERS[kind](client, namespace)


def _names_of(resource_name: str) -> Callable[["Client", str], Awaitable[set[str]]]:
    async def read(client: "Client", namespace: str) -> set[str]:
        from dradriver import kube  # noqa: PLC0415

        resource: kube.Resource = getattr(kube, resource_name)
        listing = await client.list(resource, namespace if resource.namespaced else "", into=dict)
        return {str(each["metadata"]["name"]) for each in listing.items}

    return read


def _slice_fields(kind: str) -> Callable[["Client", str], Awaitable[set[str]]]:
    async def read(client: "Client", namespace: str) -> set[str]:  # noqa: ARG001 - slices have no namespace
        from dradriver.kube import SLICES  # noqa: PLC0415
        from dradriver.model.resource.slices import ResourceSlice  # noqa: PLC0415

        specs = [each.spec for each in (await client.list(SLICES, into=ResourceSlice)).items]
        if kind == "drivers":
            return {spec.driver for spec in specs}
        if kind == "pools":
            return {spec.pool.name for spec in specs}
        return {device.name for spec in specs for device in spec.devices}

    return read


_READERS: Final[Mapping[str, Callable[["Client", str], Awaitable[set[str]]]]] = {
    "claims": _names_of("CLAIMS"),
    "devices": _slice_fields("devices"),
    "drivers": _slice_fields("drivers"),
    "namespaces": _names_of("NAMESPACES"),
    "nodes": _names_of("NODES"),
    "pods": _names_of("PODS"),
    "pools": _slice_fields("pools"),
    "slices": _names_of("SLICES"),
}
