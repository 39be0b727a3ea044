"""`dradriver get pods`."""

from datetime import datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.get.show import View, namespace_options
from dradriver.cli.output import age, output_option
from dradriver.kube import PODS
from dradriver.model.workload import Pod

__all__ = ["pods", "why_pending"]

DELETED = "is being deleted: waits for its containers to end, and for drivers to unprepare its claims"
NO_SANDBOX = (
    "claims, volumes or network are not ready on its node: kubectl describe pod has the kubelet's words"
)
COLUMNS = ("namespace", "name", "phase", "node", "claims", "why", "age")


@click.command()
@namespace_options
@cluster_options
@output_option
def pods(
    namespace: str | None,
    all_namespaces: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Show pods: phase, node, claims, and why one does not run."""
    VIEW.show(Access(kubeconfig, context), output, "" if all_namespaces else namespace)


def _row(pod: Pod, now: datetime) -> list[str]:
    claims = [f"{each.name}={pod.claim_name(each) or '?'}" for each in pod.spec.resource_claims]
    return [
        pod.metadata.namespace,
        pod.metadata.name,
        pod.status.phase or "-",
        pod.spec.node_name or "-",
        ",".join(claims) or "-",
        why_pending(pod),
        age(pod.metadata.creation_timestamp, now),
    ]


def why_pending(pod: Pod) -> str:
    """What keeps the pod from running, in the words of its status: its containers know more than the pod."""
    if pod.metadata.deletion_timestamp:
        return DELETED
    if pod.status.phase in {"Running", "Succeeded"}:
        return "-"
    waiting = (each.get("state", {}).get("waiting") or {} for each in pod.status.container_statuses)
    if message := next((state["message"] for state in waiting if state.get("message")), ""):
        return str(message)
    unmet = {c.type: c.message or c.reason for c in pod.status.conditions if c.status == "False"}
    # It knows no reason, and stays behind on a pod that has failed.
    if unmet.pop("PodReadyToStartContainers", None) and pod.status.phase == "Pending":
        return pod.status.message or NO_SANDBOX
    return pod.status.message or next((said for said in unmet.values() if said), "-")


VIEW = View(PODS, Pod, COLUMNS, _row, "No pods here (-A looks everywhere).")
