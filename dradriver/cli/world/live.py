"""Reads the objects of a running cluster."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import click

from dradriver.cli.world.events import PodEvent, list_controller_failures, list_prepare_failures
from dradriver.cli.world.world import World
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    LEASES,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Client,
    Forbidden,
    NotFound,
    Resource,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import find_allocating_controller
from dradriver.model.classic.parameters import read_class_parameters
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.lease import Lease
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["list_classic", "list_if_allowed", "list_typed", "list_world"]

T = TypeVar("T")


async def list_world(client: Client) -> World:
    """Read the objects that allocation needs, from all namespaces.

    If the user has no permission to list templates, pods, nodes or DeviceTaintRules, the function prints a
    warning on stderr, and the result does not contain these objects.

    Args:
        client: client of the cluster.

    Returns:
        The objects.

    Raises:
        ApiError: slices, classes or claims cannot be listed.
    """
    needed = asyncio.gather(
        list_typed(client, SLICES, ResourceSlice),
        list_typed(client, CLASSES, DeviceClass),
        list_typed(client, CLAIMS, ResourceClaim),
    )
    optional = asyncio.gather(
        list_if_allowed(client, TEMPLATES, ResourceClaimTemplate),
        list_if_allowed(client, PODS, Pod),
        list_if_allowed(client, NODES, Node),
        list_if_allowed(client, TAINT_RULES, DeviceTaintRule),
        list_prepare_failures(client),
    )
    (slices, classes, claims), (templates, pods, nodes, rules, events) = await asyncio.gather(needed, optional)
    contexts, records, leases, failures = await list_classic(client, classes, claims)
    return World(
        slices=slices,
        classes={each.metadata.name: each for each in classes},
        claims={each.ref: each for each in claims},
        templates={f"{each.metadata.namespace}/{each.metadata.name}": each for each in templates},
        pods={each.ref: each for each in pods},
        nodes={each.metadata.name: each for each in nodes},
        taint_rules=rules,
        events=[*events, *failures],
        scheduling_contexts={each.ref: each for each in contexts},
        controller_allocations={each.ref: each for each in records},
        leases=leases,
        namespace=client.namespace,
    )


async def list_classic(
    client: Client, classes: Iterable[DeviceClass], claims: Iterable[ResourceClaim]
) -> tuple[list[PodSchedulingContext], list[ControllerAllocation], frozenset[str] | None, list[PodEvent]]:
    """Read the objects of classic DRA (KEP-3063), if a class or a claim shows that the cluster uses it.

    A cluster without classic DRA lacks the resources, and its users lack the permission to read them, so these
    requests would only cause warnings there.

    Args:
        client: client of the cluster.
        classes: the classes of the cluster.
        claims: the claims of the cluster.

    Returns:
        The negotiations; the controllers' records; the names of the controllers that have a Lease, or None if
        Leases cannot be read; and the controllers' events about claims.
    """
    controllers = {find_allocating_controller(each) for each in claims} - {""}
    controllers |= set(_class_controllers(classes))
    if not controllers:
        return [], [], None, []
    return await asyncio.gather(
        list_if_allowed(client, SCHEDULING_CONTEXTS, PodSchedulingContext),
        list_if_allowed(client, CONTROLLER_ALLOCATIONS, ControllerAllocation),
        _list_leases(client, sorted(controllers)),
        list_controller_failures(client),
    )


def _class_controllers(classes: Iterable[DeviceClass]) -> Iterator[str]:
    for each in classes:
        try:
            entry = read_class_parameters(each)
        except InvalidObjectError:
            continue  # the claims of this class have the error
        if entry is not None:
            yield entry.controller_name


async def _list_leases(client: Client, names: Sequence[str]) -> frozenset[str] | None:
    """Return which of these names are names of Leases in any namespace; None if Leases cannot be read."""
    try:
        listings = await asyncio.gather(
            *(client.list(LEASES, into=Lease, fields=f"metadata.name={name}") for name in names)
        )
    except DraError:
        return None
    return frozenset(each.metadata.name for listing in listings for each in listing.items)


async def list_typed(client: Client, resource: Resource, kind: type[T], namespace: str = "") -> list[T]:
    """Return the objects of a resource. If an object is unreadable, it is reported on stderr and left out.

    Args:
        client: client of the cluster.
        resource: the resource.
        kind: type of the decoded objects.
        namespace: the namespace; empty for all namespaces.

    Raises:
        ApiError: the objects cannot be listed.
    """
    listing = await client.list(resource, namespace, into=kind)
    for error in listing.unreadable.values():
        click.echo(f"Warning: {error}", err=True)
    return listing.items


async def list_if_allowed(client: Client, resource: Resource, kind: type[T]) -> list[T]:
    """List the objects of a resource. The server may not have the resource or may forbid the request.

    Args:
        client: client of the cluster.
        resource: the resource.
        kind: type of the decoded objects.

    Returns:
        The objects; empty if the server does not know the resource, or forbids the request. If the server
        forbids it, a warning is printed.
    """
    try:
        return await list_typed(client, resource, kind)
    except NotFound:
        return []  # an older server does not know the resource
    except Forbidden as error:
        click.echo(f"Warning: {error}", err=True)
        return []
