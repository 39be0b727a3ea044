"""Decide when a PodSchedulingContext is created without a scheduler, and when it is deleted (KEP-3063)."""

from collections.abc import Collection, Sequence
from typing import Final

from dradriver.control.claims.pod_claims import is_done
from dradriver.control.classic.negotiation import write_spec
from dradriver.control.classic.values import AwaitedClaim
from dradriver.control.runtime.actions import DeleteContext, LookUpPod, NextAction, Step
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.workload import Pod

__all__ = ["context_step"]

_DONE: Final = Step(NextAction.DONE)


def context_step(
    pod: Pod | None,
    context: PodSchedulingContext | None,
    awaited: Sequence[AwaitedClaim],
    deleted_pods: Collection[str] = (),
) -> Step:
    """Return the next write for the context of a pod.

    A context is deleted if its pod is gone, was replaced by a pod of the same name, has ended, or is bound and
    needs no allocation. If a pod is bound and a claim is not allocated, the context contains only the selected
    node: the choice is permanent, so the controllers check no nodes, and try until the allocation works. The
    context of a pod without a node belongs to the scheduler.

    Args:
        pod: the pod with the name of the context; None if it is not in the cache.
        context: the context with the name of the pod; None if there is none.
        awaited: the claims that controllers must allocate for the pod.
        deleted_pods: UIDs of pods that are known to be deleted.

    Source: KEP-3063, "Scheduled pods with unallocated or unreserved claims".
    """
    owner = _owner_of(context) if context is not None else ""
    if pod is None:
        if context is None or not owner:
            return _DONE
        if owner in deleted_pods:
            return Step(NextAction.CONTINUE, DeleteContext(context))
        # The cache may be stale: the pod may have been created a moment ago.
        return Step(NextAction.CONTINUE, LookUpPod(context.metadata.namespace, context.metadata.name, owner))
    is_foreign = bool(owner) and owner != pod.metadata.uid
    is_bound = bool(pod.spec.node_name)
    if context is not None and (is_foreign or is_done(pod) or (is_bound and not awaited)):
        return Step(NextAction.CONTINUE, DeleteContext(context))
    if not is_bound or not awaited or is_done(pod) or pod.metadata.deletion_timestamp is not None:
        return _DONE
    write = write_spec(pod, context, SchedulingSpec(selected_node=pod.spec.node_name))
    return _DONE if write is None else Step(NextAction.CONTINUE, write)


def _owner_of(context: PodSchedulingContext) -> str:
    owners = context.metadata.owner_references
    return next((owner.uid for owner in owners if owner.kind == "Pod"), "")
