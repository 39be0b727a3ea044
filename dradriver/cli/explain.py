"""`dradriver explain`: why something is not as its user wants it."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.get.pods import why_pending
from dradriver.cli.output import age
from dradriver.control.conditions import Patience, Readiness, readiness
from dradriver.errors import NotFoundError
from dradriver.kube import CLAIMS, PODS, Client, NotFound
from dradriver.model.claim import ResourceClaim
from dradriver.model.codec import rfc3339
from dradriver.model.workload import Pod, PodClaim

__all__ = ["explain", "explanation"]


@click.group()
def explain() -> None:
    """Explain why something waits."""


@explain.command("pod", short_help="Explain what a pod waits for.")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the pod.")
@click.option(
    "--binding-timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds that the cluster's scheduler waits for binding conditions; it does not tell.",
)
@cluster_options
def pod(name: str, namespace: str, binding_timeout: float, kubeconfig: str | None, context: str | None) -> None:
    """Explain what the pod NAME waits for: claims, devices, conditions, since when and until when."""
    found, claims = with_client(Access(kubeconfig, context), lambda client: _look(client, name, namespace))
    patience = Patience(datetime.now(UTC), timedelta(seconds=binding_timeout))
    for line in explanation(found, claims, patience):
        click.echo(line)


async def _look(client: Client, name: str, namespace: str) -> tuple[Pod, list[ResourceClaim]]:
    try:
        found = await client.get(PODS, name, namespace, into=Pod)
    except NotFound:
        raise NotFoundError(f"there is no pod {name} in the namespace {namespace}") from None
    # All of the cluster: whether anybody ever sets a condition shows on others' claims.
    return found, (await client.list(CLAIMS, into=ResourceClaim)).items


def explanation(found: Pod, claims: Iterable[ResourceClaim], patience: Patience) -> Iterator[str]:
    """What the pod waits for, line by line."""
    known = {claim.ref: claim for claim in claims}
    if found.spec.node_name:
        yield f"pod {found.ref} is on node {found.spec.node_name}: {why_pending(found)}"
        return
    if (node := found.status.nominated_node_name) != "":
        yield f"pod {found.ref} waits to be bound to node {node}"
    else:
        yield f"pod {found.ref} has no node: {why_pending(found)}"
    said = {
        (entry.driver, condition.type)
        for claim in known.values()
        for entry in claim.status.devices
        for condition in entry.conditions
    }
    for wanted in found.spec.resource_claims:
        yield from _claim(found, wanted, known, said, patience)


def _claim(
    found: Pod,
    wanted: PodClaim,
    known: dict[str, ResourceClaim],
    said: set[tuple[str, str]],
    patience: Patience,
) -> Iterator[str]:
    name = found.claim_name(wanted)
    claim = known.get(f"{found.metadata.namespace}/{name}") if name else None
    if claim is None:
        why = f"claim {name} does not exist" if name else "its claim is not made from its template yet"
        yield f"  {wanted.name}: {why}"
        return
    if claim.allocation is None:
        yield f"  {wanted.name}: claim {claim.ref} is not allocated"
        return
    state, unready = readiness(claim, patience)
    if state is Readiness.READY:
        yield f"  {wanted.name}: claim {claim.ref} is ready"
        return
    since, until = claim.allocation.allocation_timestamp, patience.deadline(claim)
    times = f"since {rfc3339(since)} ({age(since, patience.now)})" if since else "since an unknown time"
    times += f", until {rfc3339(until)}" if until else ""
    words = {Readiness.FAILED: "failed", Readiness.TIMED_OUT: "took too long"}.get(
        state, "waits for conditions"
    )
    yield f"  {wanted.name}: claim {claim.ref} {words}, {times}"
    for each in unready:
        yield f"    {each}"
        never = [kind for kind in each.pending if (each.device.driver, kind) not in said]
        if never and state is not Readiness.FAILED:
            yield (
                f"    nobody has set {', '.join(never)} on any claim of this cluster: "
                f"does the controller of driver {each.device.driver} run?"
            )
