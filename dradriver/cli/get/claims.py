"""`dradriver get claims`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

import click

from dradriver.cli.classic import ClassicClaim, ClassicClaims
from dradriver.cli.cluster_access import Access, with_client
from dradriver.cli.files import Document, read_valid_files
from dradriver.cli.get.pending import pending_reason, with_events
from dradriver.cli.get.show import View, namespace_options
from dradriver.cli.terminal.output import age, output_option
from dradriver.cli.world import (
    DEFAULT_NAMESPACE,
    WorldSource,
    list_typed,
    read_world,
    world_options,
)
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    PODS,
    Client,
    Forbidden,
    NotFound,
    Resource,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["claim_state", "claims"]

T = TypeVar("T")

COLUMNS = (
    *("namespace", "name", "state", "age", "nodes", "devices", "reserved for"),
    *("mode", "controller", "why"),
)
_EMPTY = "No ResourceClaims in this namespace (-A shows all namespaces)."


@dataclass(frozen=True)
class _Context:
    """What the rows need besides the claims.

    Attributes:
        users: why the pods of claims wait, by `namespace/name` of the claim; None if pods cannot be read.
        classic: finds the classic claims.
        knows_classes: whether the classes could be read. Otherwise a claim can be classic without a sign of it.
    """

    users: Mapping[str, str] | None
    classic: ClassicClaims
    knows_classes: bool = True


@click.command(short_help="Show ResourceClaims: state, devices, and why a claim is pending.")
@namespace_options
@world_options
@output_option
def claims(namespace: str | None, all_namespaces: bool, source: WorldSource, output: str) -> None:
    """Show ResourceClaims: state, nodes, devices, users, mode, controller, and why a claim is pending.

    MODE and CONTROLLER are those of classic claims (KEP-3063), which a controller allocates.
    """
    where = "" if all_namespaces else namespace
    if source.files:
        _show_files(source, DEFAULT_NAMESPACE if where is None else where, output)
    else:
        _show_cluster(source.access, where, output)


def _show_files(source: WorldSource, where: str, output: str) -> None:
    documents = read_valid_files(source.files)
    world = read_world(documents)
    if output != "table":
        raw = (each.as_v1() for each in documents if each.kind == CLAIMS.kind and _is_in(each, where))
        View(CLAIMS, ResourceClaim, COLUMNS, lambda *_: [], _EMPTY).show_list(raw, output)
        return
    classic = ClassicClaims(world.classes, world.controller_allocations.values())
    row = partial(_row, _Context(_find_users(list(world.pods.values())), classic))
    chosen = [each for each in world.claims.values() if where in {"", each.metadata.namespace}]
    View(CLAIMS, ResourceClaim, COLUMNS, row, _EMPTY).show_table(chosen)


def _is_in(document: Document, where: str) -> bool:
    return where in {"", document.namespace or DEFAULT_NAMESPACE}


def _show_cluster(access: Access, where: str | None, output: str) -> None:
    async def read(client: Client) -> _Context:
        namespace = client.namespace if where is None else where
        # A user can have the permission to list claims but not to list classes or pods.
        classes = await _list_or_none(client, CLASSES, DeviceClass)
        records = await _list_or_none(client, CONTROLLER_ALLOCATIONS, ControllerAllocation, namespace)
        pods = await _list_or_none(client, PODS, Pod, namespace)
        users = None if pods is None else _find_users(await with_events(client, pods))
        classic = ClassicClaims({each.metadata.name: each for each in classes or ()}, records or ())
        return _Context(users, classic, classes is not None)

    context = with_client(access, read) if output == "table" else _Context(None, ClassicClaims({}))
    View(CLAIMS, ResourceClaim, COLUMNS, partial(_row, context), _EMPTY).show(access, output, where)


async def _list_or_none(
    client: Client, resource: Resource, kind: type[T], namespace: str = ""
) -> list[T] | None:
    """Return the objects of a resource; None if the cluster lacks it, or if the user may not list it."""
    try:
        return await list_typed(client, resource, kind, namespace)
    except (NotFound, Forbidden):
        return None


def _find_users(pods: Iterable[Pod]) -> Mapping[str, str]:
    return {
        f"{pod.metadata.namespace}/{pod.claim_name(each)}": pending_reason(pod)
        for pod in pods
        for each in pod.spec.resource_claims
    }


def claim_state(claim: ResourceClaim, classic: ClassicClaim | None = None) -> str:
    """Return the state as `kubectl get` prints it: pending, or any of allocated, reserved and deleted.

    A classic claim is `allocating` while its controller allocates it. It is `deallocating` instead of
    `deleted`, or while its deallocation is requested.

    Args:
        claim: the claim.
        classic: how a controller allocates the claim; None if the claim is allocated from slices.
    """
    state = "" if classic is None else classic.state
    is_deallocating = state == "deallocating"
    words = [
        word
        for word, applies in (
            ("deallocating", is_deallocating),
            ("allocating", state == "allocating"),
            ("deleted", claim.metadata.deletion_timestamp is not None and not is_deallocating),
            ("allocated", claim.allocation is not None),
            ("reserved", bool(claim.status.reserved_for)),
        )
        if applies
    ]
    return ",".join(words) or "pending"


def _row(context: _Context, claim: ResourceClaim, now: datetime) -> list[str]:
    classic = context.classic.find_valid(claim)
    unknown = "-" if context.knows_classes else "?"
    return [
        claim.metadata.namespace,
        claim.metadata.name,
        claim_state(claim, classic),
        age(claim.metadata.creation_timestamp, now),
        _nodes(claim.allocation),
        ",".join(map(str, (result.id for result in claim.results))) or "-",
        ",".join(f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for) or "-",
        unknown if classic is None else classic.mode,
        unknown if classic is None else classic.controller,
        _why(context, claim, classic),
    ]


def _why(context: _Context, claim: ResourceClaim, classic: ClassicClaim | None) -> str:
    """Return why the claim is pending: the scheduler's message about a pod that uses it."""
    if claim_state(claim, classic) not in {"pending", "allocating"}:
        return "-"
    if classic is not None and not classic.is_delayed:
        return f"controller {classic.controller} allocates it without a pod"
    if context.users is None:
        return context.classic.find_error(claim) or "-"
    return context.classic.find_error(claim) or context.users.get(claim.ref, "no pod uses it")


def _nodes(allocation: Allocation | None) -> str:
    if allocation is None:
        return "-"
    if allocation.node_selector is None:
        return "all nodes"
    names = [
        value
        for term in allocation.node_selector.node_selector_terms
        for requirement in term.match_fields
        if (requirement.key, requirement.operator) == ("metadata.name", "In")
        for value in requirement.values
    ]
    return ",".join(names) or "by selector"
