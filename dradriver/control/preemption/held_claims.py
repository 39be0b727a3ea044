"""Find the claims that evictions for a node would release, and the pods that use these claims."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dradriver.control.extended import special_claim_owners
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["HeldClaim", "find_held_claims", "find_leaving_claims"]


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim whose devices become free when pods leave.

    Attributes:
        claim: the claim, with its allocation.
        victims: the pods that must be evicted, by `namespace/name`. Empty: all pods of the claim are leaving
            already.
    """

    claim: ResourceClaim
    victims: Mapping[str, Pod]


def find_held_claims(
    cluster: ClusterState, node: str, below: int, allowed: Collection[str] | None = None
) -> list[HeldClaim]:
    """Return the claims that the eviction of pods with a lower priority releases.

    A claim stays if one of its users has an equal or higher priority, or is no pod, or is a pod without a node
    for which the claim is reserved. The pod that needs devices is such a user: a claim of its own stays
    allocated where it is. A claim without users stays, too, because no pod's end releases it. A pod that is
    being deleted, or that has ended, leaves the claim without an eviction.

    Args:
        cluster: the cluster, with the pod that needs devices.
        node: the name of the node whose pools count, including pools that other nodes reach too.
        below: the priority of this pod. Only pods of a lower priority are victims.
        allowed: the pods (`namespace/name`) that may be victims. None: all.
    """
    found = []
    for ref in sorted(cluster.placer.holders_on(node)):
        claim = cluster.claims.get(ref)
        if claim is None or claim.allocation is None:
            continue  # the devices are kept for a nominated pod
        victims = _find_victims(cluster, claim, below, allowed)
        if victims is not None:
            found.append(HeldClaim(claim, victims))
    return found


def find_leaving_claims(cluster: ClusterState, node: str, below: int) -> list[ResourceClaim]:
    """Return the claims that are released without an eviction, because their pods are leaving.

    Args:
        cluster: the cluster, with the pod that needs devices.
        node: the name of the node, as in `find_held_claims`.
        below: the priority of this pod.
    """
    return [held.claim for held in find_held_claims(cluster, node, below, allowed=()) if not held.victims]


def _find_victims(
    cluster: ClusterState, claim: ResourceClaim, below: int, allowed: Collection[str] | None
) -> dict[str, Pod] | None:
    if _is_awaited(cluster, claim, below):
        return None
    victims: dict[str, Pod] = {}
    has_users = False
    for ref, uid in _find_users(cluster, claim):
        has_users = True
        pod = cluster.find_pod(ref) if ref else None
        if pod is None or (uid and pod.metadata.uid != uid):
            if not ref:
                return None
            continue  # the pod has ended
        if pod.metadata.deletion_timestamp is not None:
            continue
        if not cluster.node_of(ref) or pod.priority >= below or (allowed is not None and ref not in allowed):
            return None
        victims[ref] = pod
    return victims if has_users else None


def _is_awaited(cluster: ClusterState, claim: ResourceClaim, below: int) -> bool:
    """Return whether a pod without a node and without a lower priority needs a claim.

    If the claim were released, this pod would allocate it again.
    """
    users = (cluster.find_pod(ref) for ref in cluster.users_of(claim.ref) if not cluster.node_of(ref))
    return any(pod is not None and pod.priority >= below for pod in users)


def _find_users(cluster: ClusterState, claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """Yield `namespace/name` and UID of each user; both are empty for a user that is no pod.

    Pods of plans in flight use a claim before it is reserved for them. They are found by their specs. Other
    pods without a node do not use it yet. The pod of a special claim is found by the claim's owner.
    """
    namespace = claim.metadata.namespace
    for consumer in claim.status.reserved_for:
        is_pod = consumer.resource == "pods" and not consumer.api_group
        yield (f"{namespace}/{consumer.name}", consumer.uid) if is_pod else ("", "")
    for ref in cluster.users_of(claim.ref):
        if cluster.node_of(ref):
            yield ref, ""
    owner = claim.metadata.controller
    if owner is not None and special_claim_owners(claim):
        yield f"{namespace}/{owner.name}", owner.uid
