"""`dradriver get claims`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import click
import msgspec

from dradriver.cli.classic import ClassicClaim, ClassicClaims
from dradriver.cli.files import read_valid_files
from dradriver.cli.get.pending import with_events
from dradriver.cli.listing import (
    Kind,
    ListedObjects,
    ListRow,
    ListSource,
    Query,
    listing_options,
    namespace_options,
    selector_options,
    show_files,
    show_list,
)
from dradriver.cli.terminal.output import age
from dradriver.cli.world import DEFAULT_NAMESPACE, WorldSource, read_world, world_options
from dradriver.kube import CLAIMS, CLASSES, CONTROLLER_ALLOCATIONS, PODS, Client
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.overview import pending_reason

__all__ = ["claim_state", "claims"]

COLUMNS = (
    *("namespace", "name", "state", "age", "nodes", "devices", "reserved for"),
    *("mode", "controller", "waiting", "why"),
)


@dataclass(frozen=True)
class _Context:
    """What the rows need besides the claims.

    Attributes:
        users: why the pods of claims wait, by `namespace/name` of the claim; None if pods cannot be read.
        classic: finds the classic claims.
        waiting: the pods that wait and use a claim, as `pods/NAME`, by `namespace/name` of the claim.
        knows_classes: whether the classes could be read. Otherwise a claim can be classic without a sign of it.
    """

    users: Mapping[str, str] | None
    classic: ClassicClaims
    knows_classes: bool = True
    waiting: Mapping[str, Sequence[str]] = field(default_factory=dict)


@click.command(short_help="Show ResourceClaims: state, devices, and why a claim is pending.")
@listing_options("claims")
@namespace_options
@selector_options
@world_options
def claims(query: Query, source: WorldSource) -> None:
    """Show ResourceClaims: state, age, nodes, devices, users, who waits, and why a claim is pending.

    WAITING has the pods that use the claim and do not run yet. MODE and CONTROLLER are those of classic claims
    (KEP-3063), which a controller allocates.
    """
    if source.files:
        _show_files(source, query)
    else:
        show_list(CLAIM_LIST, query, source.access)


def _show_files(source: WorldSource, query: Query) -> None:
    documents = read_valid_files(source.files)
    world = read_world(documents)
    where = DEFAULT_NAMESPACE if query.namespace is None else query.namespace
    objects = ListedObjects(
        {
            CLAIMS: [each for each in world.claims.values() if where in {"", each.metadata.namespace}],
            CLASSES: list(world.classes.values()),
            CONTROLLER_ALLOCATIONS: list(world.controller_allocations.values()),
            PODS: list(world.pods.values()),
        }
    )
    raw = [
        {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, **msgspec.json.decode(each.as_v1(), type=dict)}
        for each in documents
        if each.kind == CLAIMS.kind and where in {"", each.namespace or DEFAULT_NAMESPACE}
    ]
    show_files(CLAIM_LIST, query, objects, raw)


async def _add_events(client: Client, objects: ListedObjects) -> ListedObjects:
    if not objects.has(PODS):
        return objects
    return objects.replace(PODS, await with_events(client, objects.get(PODS, Pod)))


def _rows(objects: ListedObjects, now: datetime) -> Iterator[ListRow]:
    context = _context(objects)
    for claim in objects.get(CLAIMS, ResourceClaim):
        cells = dict(zip(COLUMNS, _row(context, claim, now), strict=True))
        yield ListRow(claim.ref, (claim.metadata.name,), cells, claim.metadata.labels)


def _context(objects: ListedObjects) -> _Context:
    # A user can have the permission to list claims but not to list classes or pods.
    classes = {each.metadata.name: each for each in objects.get(CLASSES, DeviceClass)}
    pods = objects.get(PODS, Pod)
    return _Context(
        _find_users(pods) if objects.has(PODS) else None,
        ClassicClaims(classes, objects.get(CONTROLLER_ALLOCATIONS, ControllerAllocation)),
        objects.has(CLASSES),
        _find_waiting(pods),
    )


def _find_users(pods: Iterable[Pod]) -> Mapping[str, str]:
    return {
        f"{pod.metadata.namespace}/{pod.claim_name(each)}": pending_reason(pod)
        for pod in pods
        for each in pod.spec.resource_claims
    }


def _find_waiting(pods: Iterable[Pod]) -> Mapping[str, Sequence[str]]:
    waiting: dict[str, list[str]] = {}
    for pod in pods:
        if pod.status.phase not in {"", "Pending"}:
            continue
        for each in pod.spec.resource_claims:
            if name := pod.claim_name(each):
                waiting.setdefault(f"{pod.metadata.namespace}/{name}", []).append(f"pods/{pod.metadata.name}")
    return waiting


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
        ",".join(context.waiting.get(claim.ref, ())) or "-",
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


CLAIM_LIST = Kind(
    *("claim", "claims", COLUMNS, COLUMNS),
    sources=(
        ListSource(CLAIMS, ResourceClaim, is_namespaced=True),
        ListSource(CLASSES, DeviceClass, is_optional=True),
        ListSource(CONTROLLER_ALLOCATIONS, ControllerAllocation, is_optional=True, is_namespaced=True),
        ListSource(PODS, Pod, is_optional=True, is_namespaced=True),
    ),
    rows=_rows,
    empty="No ResourceClaims in this namespace (-A shows all namespaces).",
    enrich=_add_events,
)
