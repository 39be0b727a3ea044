"""`dradriver get claims`."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.get.pod_events import with_events
from dradriver.cli.get.show import View, namespace_options
from dradriver.cli.get.why import why_pending
from dradriver.cli.terminal.output import age, output_option
from dradriver.cli.world import list_typed
from dradriver.kube import CLAIMS, PODS, Client, Forbidden
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import Allocation, ResourceClaim

__all__ = ["claim_state", "claims"]

COLUMNS = ("namespace", "name", "state", "age", "nodes", "devices", "reserved for", "why")


@click.command(short_help="Show ResourceClaims: state, devices, why one is pending.")
@namespace_options
@cluster_options
@output_option
def claims(
    namespace: str | None,
    all_namespaces: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Show ResourceClaims: state, devices, nodes, who may use them, and why one is pending."""
    access, where = Access(kubeconfig, context), "" if all_namespaces else namespace

    async def users(client: Client) -> Mapping[str, str] | None:
        try:
            listed = await list_typed(client, PODS, Pod, client.namespace if where is None else where)
        except Forbidden:
            return None  # a user may have the right to list claims but not pods
        pods = await with_events(client, listed)
        return {
            f"{pod.metadata.namespace}/{pod.claim_name(each)}": why_pending(pod)
            for pod in pods
            for each in pod.spec.resource_claims
        }

    row = partial(_row, with_client(access, users) if output == "table" else None)
    empty = "No ResourceClaims here (-A looks everywhere)."
    View(CLAIMS, ResourceClaim, COLUMNS, row, empty).show(access, output, where)


def claim_state(claim: ResourceClaim) -> str:
    """Return the state as `kubectl get` prints it: pending, or any of allocated, reserved and deleted."""
    words = [
        word
        for word, holds in (
            ("deleted", claim.metadata.deletion_timestamp is not None),
            ("allocated", claim.allocation is not None),
            ("reserved", bool(claim.status.reserved_for)),
        )
        if holds
    ]
    return ",".join(words) or "pending"


def _row(users: Mapping[str, str] | None, claim: ResourceClaim, now: datetime) -> list[str]:
    return [
        claim.metadata.namespace,
        claim.metadata.name,
        claim_state(claim),
        age(claim.metadata.creation_timestamp, now),
        _nodes(claim.allocation),
        ",".join(map(str, (result.id for result in claim.results))) or "-",
        ",".join(f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for) or "-",
        _why(users, claim),
    ]


def _why(users: Mapping[str, str] | None, claim: ResourceClaim) -> str:
    """Return why the claim is pending, from the scheduler's message about a pod that uses it."""
    if users is None or claim_state(claim) != "pending":
        return "-"
    return users.get(claim.ref, "no pod uses it")


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
