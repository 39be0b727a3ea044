"""Check whether a pod runs with a claim, by reads from the API server, because a cache may be stale."""

from dradriver.kube import PODS, Client, NotFound
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["a_pod_runs"]


async def a_pod_runs(client: Client, claim: ResourceClaim) -> bool:
    """Return whether a pod in `status.reservedFor` has a node and is unfinished, by consistent reads.

    The entries of a claim that is being deleted are only removed, so a cached claim is sufficient. A consumer
    that is not a pod counts as running.

    Args:
        client: the API server.
        claim: a claim that is being deleted.

    Raises:
        ApiError: the API server did not answer, or rejected the request.
    """
    for consumer in claim.status.reserved_for:
        if consumer.resource != "pods" or consumer.api_group:
            return True
        try:
            pod = await client.get(PODS, consumer.name, claim.metadata.namespace, into=Pod)
        except NotFound:
            continue
        if pod.metadata.uid == consumer.uid and pod.spec.node_name and not pod.finished:
            return True
    return False
