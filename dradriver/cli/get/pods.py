"""`dradriver get pods`."""

from collections.abc import Iterator
from datetime import datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.get.pending import with_events
from dradriver.cli.get.pod_summary import pod_summary
from dradriver.cli.listing import (
    Kind,
    ListedObjects,
    ListRow,
    ListSource,
    Query,
    listing_options,
    namespace_options,
    selector_options,
    show_list,
)
from dradriver.cli.terminal.output import age
from dradriver.kube import PODS, Client
from dradriver.model.core.workload import Pod
from dradriver.overview import pending_reason

__all__ = ["POD_LIST", "pods"]

COLUMNS = ("namespace", "name", "ready", "status", "age", "node", "claims", "why")


@click.command(short_help="Show pods: status, node, claims, and why a pod is not ready.")
@listing_options("pods")
@namespace_options
@selector_options
@cluster_options
def pods(query: Query, access: Access) -> None:
    """Show pods: readiness and status as in kubectl, node, claims, and why a pod is not ready."""
    show_list(POD_LIST, query, access)


async def _add_events(client: Client, objects: ListedObjects) -> ListedObjects:
    return objects.replace(PODS, await with_events(client, objects.get(PODS, Pod)))


def _rows(objects: ListedObjects, now: datetime) -> Iterator[ListRow]:
    for pod in objects.get(PODS, Pod):
        cells = dict(zip(COLUMNS, _row(pod, now), strict=True))
        yield ListRow(pod.ref, (pod.metadata.name,), cells, pod.metadata.labels)


def _row(pod: Pod, now: datetime) -> list[str]:
    summary = pod_summary(pod)
    claims = [f"{each.name}={pod.claim_name(each) or '?'}" for each in pod.spec.resource_claims]
    if (special := pod.status.extended_resource_claim_status) is not None:
        claims.append(f"extended resources={special.resource_claim_name}")
    return [
        pod.metadata.namespace,
        pod.metadata.name,
        summary.ready,
        summary.status or "-",
        age(pod.metadata.creation_timestamp, now),
        pod.spec.node_name or "-",
        ",".join(claims) or "-",
        pending_reason(pod),
    ]


POD_LIST = Kind(
    *("pod", "pods", COLUMNS, COLUMNS),
    sources=(ListSource(PODS, Pod, is_namespaced=True),),
    rows=_rows,
    empty="No pods in this namespace (-A shows all namespaces).",
    enrich=_add_events,
)
