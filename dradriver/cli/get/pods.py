"""`dradriver get pods`."""

from datetime import datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.get.pending import pending_reason, with_events
from dradriver.cli.get.pod_summary import pod_summary
from dradriver.cli.get.show import View, namespace_options
from dradriver.cli.terminal.output import age, output_option
from dradriver.kube import PODS
from dradriver.model.core.workload import Pod

__all__ = ["pods"]

COLUMNS = ("namespace", "name", "ready", "status", "age", "node", "claims", "why")


@click.command(short_help="Show pods: status, node, claims, and why a pod is not ready.")
@namespace_options
@cluster_options
@output_option
def pods(namespace: str | None, all_namespaces: bool, access: Access, output: str) -> None:
    """Show pods: readiness and status as in kubectl, node, claims, and why a pod is not ready."""
    VIEW.show(access, output, "" if all_namespaces else namespace)


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


VIEW = View(PODS, Pod, COLUMNS, _row, "No pods in this namespace (-A shows all namespaces).", with_events)
