"""Decide which claim must be deallocated, so that its pod finds a node (KEP-3063, `deallocationRequested`)."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence

from dradriver.control.claims.pod_claims import is_reserved_for
from dradriver.control.classic.values import is_controlled, is_delayed, must_be_deallocated
from dradriver.control.runtime.actions import RequestDeallocation
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["choose_deallocation", "release_reservation"]


def choose_deallocation(
    pod: Pod,
    claims: Sequence[ResourceClaim],
    records: Mapping[str, ControllerAllocation],
    *,
    unavailable: Collection[str],
    is_refused: bool,
    round_number: int,
) -> RequestDeallocation | None:
    """Return the request to deallocate one randomly picked claim of a pod that fits no node.

    The result is None if no deallocation helps.

    A claim helps if it is allocated with delayed allocation, if it is unused or reserved for this pod alone,
    and if it was not available on a node. A claim that is available on all nodes helps too if the claim of
    another controller cannot be allocated there: two pods may each have one of two claims and wait for the
    other one.

    Args:
        pod: the pod.
        claims: the claims of the pod.
        records: the controllers' records, by the UID of the claim.
        unavailable: UIDs of the allocated claims that cannot be used on at least one node.
        is_refused: whether a controller's answer excludes a node on which the allocated claims are available.
        round_number: the generation of the pod's context. The same pod picks the same claim in one round.

    Source: KEP-3063, "Coordinating resource allocation through the scheduler".
    """
    candidates = [
        claim
        for claim in claims
        if claim.allocation is not None
        and is_controlled(claim)
        and is_delayed(claim)
        and (is_refused or claim.metadata.uid in unavailable)
        and all(user.uid == pod.metadata.uid for user in claim.status.reserved_for)
        and (claim.results or claim.metadata.uid in records)
        and not must_be_deallocated(claim, records.get(claim.metadata.uid))
    ]
    if not candidates:
        return None
    picked = random.Random(f"{pod.metadata.uid}/{round_number}").choice(candidates)  # noqa: S311 - no secret
    message = f"pod {pod.metadata.name} fits no node while the claim is allocated there"
    return RequestDeallocation(picked, records.get(picked.metadata.uid), message=message)


def release_reservation(
    pod: Pod, claims: Sequence[ResourceClaim], records: Mapping[str, ControllerAllocation]
) -> Iterator[RequestDeallocation]:
    """Yield the write that removes a pod from a claim that must be deallocated.

    If a claim has no devices, a request for deallocation takes two writes. If the process dies between them,
    the reservation remains, and the controller waits until the reservation is removed.

    Args:
        pod: the pod, which has no node.
        claims: the claims of the pod.
        records: the controllers' records, by the UID of the claim.
    """
    for claim in claims:
        record = records.get(claim.metadata.uid)
        if is_controlled(claim) and is_reserved_for(claim, pod) and must_be_deallocated(claim, record):
            others = tuple(user for user in claim.status.reserved_for if user.uid != pod.metadata.uid)
            yield RequestDeallocation(claim, record, others)
