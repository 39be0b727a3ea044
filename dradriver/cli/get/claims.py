"""`dradriver get claims`."""

from datetime import datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.get.show import View, namespace_options
from dradriver.cli.output import age, output_option
from dradriver.kube import CLAIMS
from dradriver.model.claim import Allocation, ResourceClaim

__all__ = ["claim_state", "claims"]

COLUMNS = ("namespace", "name", "state", "devices", "nodes", "reserved for", "age")


@click.command()
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
    """Show ResourceClaims: state, devices, nodes, and who may use them."""
    VIEW.show(Access(kubeconfig, context), output, "" if all_namespaces else namespace)


def claim_state(claim: ResourceClaim) -> str:
    """`kubectl get resourceclaims`' words: pending, or allocated, reserved and deleted in any combination."""
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


def _row(claim: ResourceClaim, now: datetime) -> list[str]:
    return [
        claim.metadata.namespace,
        claim.metadata.name,
        claim_state(claim),
        ",".join(map(str, (result.id for result in claim.results))) or "-",
        _nodes(claim.allocation),
        ",".join(f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for) or "-",
        age(claim.metadata.creation_timestamp, now),
    ]


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


VIEW = View(CLAIMS, ResourceClaim, COLUMNS, _row, "No ResourceClaims here (-A looks everywhere).")
