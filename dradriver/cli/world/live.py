"""Reads the objects of a running cluster."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import click

from dradriver.cli.world.events import list_prepare_failures
from dradriver.cli.world.world import World
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    NODES,
    PODS,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Client,
    Forbidden,
    NotFound,
    Resource,
)
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["list_if_allowed", "list_typed", "list_world"]

T = TypeVar("T")
Namespaced = TypeVar("Namespaced", ResourceClaim, Pod)
Named = TypeVar("Named", DeviceClass, Node)


async def list_world(client: Client) -> World:
    """Return the objects that allocation reads, from all namespaces.

    If the user may not list templates, pods, nodes or DeviceTaintRules, a warning goes to stderr, and the
    result lacks them.

    Raises:
        ApiError: slices, classes or claims cannot be listed.
    """
    needed = asyncio.gather(
        list_typed(client, SLICES, ResourceSlice),
        list_typed(client, CLASSES, DeviceClass),
        list_typed(client, CLAIMS, ResourceClaim),
    )
    helpful = asyncio.gather(
        list_if_allowed(client, TEMPLATES, ResourceClaimTemplate),
        list_if_allowed(client, PODS, Pod),
        list_if_allowed(client, NODES, Node),
        list_if_allowed(client, TAINT_RULES, DeviceTaintRule),
        list_prepare_failures(client),
    )
    (slices, classes, claims), (templates, pods, nodes, rules, events) = await asyncio.gather(needed, helpful)
    return World(
        slices=slices,
        classes=_by_name(classes),
        claims=_by_ref(claims),
        templates={f"{each.metadata.namespace}/{each.metadata.name}": each for each in templates},
        pods=_by_ref(pods),
        nodes=_by_name(nodes),
        taint_rules=rules,
        events=events,
        namespace=client.namespace,
    )


async def list_typed(client: Client, resource: Resource, kind: type[T], namespace: str = "") -> list[T]:
    """Return all objects of a resource, decoded. An unreadable object is reported on stderr and left out."""
    listing = await client.list(resource, namespace, into=kind)
    for error in listing.unreadable.values():
        click.echo(f"Warning: {error}", err=True)
    return listing.items


async def list_if_allowed(client: Client, resource: Resource, kind: type[T]) -> list[T]:
    """Return all objects of a resource; empty if the server does not know it or, with a warning, forbids it."""
    try:
        return await list_typed(client, resource, kind)
    except NotFound:
        return []  # an older server does not know the resource
    except Forbidden as error:
        click.echo(f"Warning: {error}", err=True)
        return []


def _by_ref(objects: Iterable[Namespaced]) -> dict[str, Namespaced]:
    return {each.ref: each for each in objects}


def _by_name(objects: Iterable[Named]) -> dict[str, Named]:
    return {each.metadata.name: each for each in objects}
