"""Whether a pod runs with a claim: read from the API server itself, because a cache may be behind."""

from dradriver.kube import PODS, Client, NotFound
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["a_pod_runs"]


async def a_pod_runs(client: Client, claim: ResourceClaim) -> bool:
    """Whether a pod in `status.reservedFor` of the claim has a node and is unfinished, by consistent reads.

    The entries of a claim that is being deleted only become fewer, so a claim out of a cache is good enough. A
    consumer of a kind other than pods may be running for all that is known here.

    Args:
        client: the API server.
        claim: a claim that is being deleted.

    Raises:
        ApiError: the API server did not answer, or refused.
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
