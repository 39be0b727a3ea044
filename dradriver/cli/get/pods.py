"""`dradriver get pods`."""

from datetime import UTC, datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.get.show import list_typed, namespace_options, show_objects
from dradriver.cli.output import age, output_option, table
from dradriver.kube import PODS, Client
from dradriver.model.workload import Pod

__all__ = ["pods"]

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
    access = Access(kubeconfig, context)

    def where(client: Client) -> str:
        return "" if all_namespaces else namespace or client.namespace

    if output != "table":

        async def ask_raw(client: Client) -> list[bytes]:
            return (await client.list(PODS, where(client), into=bytes)).items

        show_objects(PODS, with_client(access, ask_raw), output)
        return

    async def ask(client: Client) -> list[Pod]:
        return await list_typed(client, PODS, Pod, where(client))

    found = with_client(access, ask)
    now = datetime.now(UTC)
    table(COLUMNS, (_row(each, now) for each in found), empty="No pods here (-A looks everywhere).")


def _row(pod: Pod, now: datetime) -> list[str]:
    claims = [f"{each.name}={pod.claim_name(each) or '?'}" for each in pod.spec.resource_claims]
    return [
        pod.metadata.namespace,
        pod.metadata.name,
        pod.status.phase or "-",
        pod.spec.node_name or "-",
        ",".join(claims) or "-",
        _why(pod),
        age(pod.metadata.creation_timestamp, now),
    ]


def _why(pod: Pod) -> str:
    """What keeps the pod from running, in the words of its status."""
    if pod.status.phase in {"Running", "Succeeded"}:
        return "-"
    unmet = (
        c.message or c.reason for c in pod.status.conditions if c.status == "False" and (c.message or c.reason)
    )
    return pod.status.message or next(unmet, "-")
