"""Decide the next step for one pod, from its `PodSchedulingContext` and its unallocated claims.

| node is selected | the controller called it unsuitable | nodes to check | step |
|---|---|---|---|
| yes | no | any | ALLOCATE |
| yes | any | no potential nodes: the pod is bound already | ALLOCATE |
| yes | yes | some | CHECK, so that the scheduler learns of changes |
| no | | some | CHECK |
| no | | none | NONE |

If no claim is pending, there is nothing to do, with one exception: after an answer about an unallocated claim
that has become a claim of another controller, the step is WITHDRAW. The answer has the name of the claim, so
the other controller could not answer under this name.

The nodes to check are the potential nodes, and the nodes that the controller called unsuitable before. The
scheduler lists no potential nodes while all nodes are unsuitable, so only a check can end this state.

A pod that is being deleted, has ended, or is not the owner of its context needs no step. The controller never
allocates again because another node is selected: the scheduler asks for the deallocation of claims (KEP-3063,
PodSchedulingContextSpec).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dradriver.classic.steps.claim_steps import find_other_controller
from dradriver.model.classic.controlled_claims import ControlledClaim
from dradriver.model.classic.names import MAX_NODES
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = [
    "NegotiatedClaim",
    "NegotiationStep",
    "find_node_to_allocate",
    "find_pending",
    "has_stale_answers",
    "is_negotiating",
    "next_pod_step",
    "nodes_to_check",
]


class NegotiationStep(StrEnum):
    """What the controller does next for a pod.

    Attributes:
        NONE: nothing.
        ALLOCATE: allocate the pending claims for the selected node.
        CHECK: check for which nodes the pending claims cannot be allocated.
        WITHDRAW: remove all answers of this controller.
    """

    NONE = "none"
    ALLOCATE = "allocate"
    CHECK = "check"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class NegotiatedClaim:
    """A claim that this controller must allocate for a pod.

    Attributes:
        names: its names in the pod's `spec.resourceClaims`; more than one if the pod lists it twice.
        controlled: the claim and its requests.
    """

    names: tuple[str, ...]
    controlled: ControlledClaim

    @property
    def uid(self) -> str:
        """Return the UID of the claim."""
        return self.controlled.claim.metadata.uid


def is_negotiating(context: PodSchedulingContext, pod: Pod | None) -> bool:
    """Return whether the context is of this pod, and the pod still needs claims (KEP-3063).

    Drivers ignore the context of a deleted pod. An earlier pod may have had the same name.
    """
    if pod is None or not context.is_for(pod.metadata.uid):
        return False
    return pod.metadata.deletion_timestamp is None and not pod.finished


def find_pending(
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    controller: str,
    resolve: Callable[[ResourceClaim], ControlledClaim | None],
) -> list[NegotiatedClaim]:
    """Return the claims of a pod that this controller must allocate, in the order of the pod.

    Args:
        pod: the pod.
        claims: all claims by `namespace/name`.
        controller: the name of this controller.
        resolve: returns how this controller allocates a claim; None if it does not.
    """
    names: dict[str, list[str]] = {}
    found: dict[str, ControlledClaim] = {}
    for wanted in pod.spec.resource_claims:
        claim = claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        if claim is None or claim.allocation is not None or claim.metadata.deletion_timestamp is not None:
            continue
        owner = claim.metadata.controller
        if not wanted.resource_claim_name and (owner is None or owner.uid != pod.metadata.uid):
            continue  # an earlier pod of the same name had the claim
        if find_other_controller(claim, controller):
            continue
        controlled = resolve(claim)
        if controlled is not None and controlled.is_delayed:
            found[claim.metadata.uid] = controlled
            names.setdefault(claim.metadata.uid, []).append(wanted.name)
    return [NegotiatedClaim(tuple(names[uid]), controlled) for uid, controlled in found.items()]


def has_stale_answers(
    context: PodSchedulingContext,
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    pending: Sequence[NegotiatedClaim],
    controller: str,
) -> bool:
    """Return whether the controller has answered about an unallocated claim that it does not allocate any more.

    Answers about allocated claims are not stale: they end with the context, without another write.

    Args:
        context: the context of the pod.
        pod: the pod.
        claims: all claims by `namespace/name`.
        pending: the claims that this controller must allocate.
        controller: the name of this controller.
    """
    own = {each.name for each in context.status.resource_claims if each.controller_name == controller}
    stale = own.difference(*(each.names for each in pending))
    found = (
        claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        for wanted in pod.spec.resource_claims
        if wanted.name in stale
    )
    return any(claim is not None and claim.allocation is None for claim in found)


def next_pod_step(
    context: PodSchedulingContext,
    pending: Sequence[NegotiatedClaim],
    controller: str,
    *,
    has_stale: bool = False,
) -> NegotiationStep:
    """Return the next step for a pod whose negotiation goes on, by the table of this module.

    Args:
        context: the context of the pod.
        pending: the claims that this controller must allocate.
        controller: the name of this controller.
        has_stale: whether the context still has an answer of this controller about a claim that the controller
            no longer has to allocate.
    """
    if not pending:
        return NegotiationStep.WITHDRAW if has_stale else NegotiationStep.NONE
    if find_node_to_allocate(context, controller):
        return NegotiationStep.ALLOCATE
    return NegotiationStep.CHECK if nodes_to_check(context, controller) else NegotiationStep.NONE


def find_node_to_allocate(context: PodSchedulingContext, controller: str) -> str:
    """Return the selected node; empty if there is none, or if the controller has called it unsuitable.

    For a pod that is bound already there are no potential nodes, and the choice is permanent.

    Args:
        context: the context of the pod.
        controller: the name of this controller.
    """
    node, potential = context.spec.selected_node, context.spec.potential_nodes
    return "" if potential and node in _unsuitable_before(context, controller) else node


def nodes_to_check(context: PodSchedulingContext, controller: str) -> list[str]:
    """Return the nodes to check: the potential nodes, and those that were unsuitable before.

    The scheduler does not list unsuitable nodes as potential nodes again (KEP-3063). If all nodes were
    unsuitable, it lists none, and waits for a better answer.
    """
    spec = context.spec
    selected = [spec.selected_node] if spec.selected_node else []
    unsuitable = _unsuitable_before(context, controller)
    return list(dict.fromkeys([*selected, *spec.potential_nodes, *unsuitable]))[:MAX_NODES]


def _unsuitable_before(context: PodSchedulingContext, controller: str) -> dict[str, None]:
    """Return the nodes in all answers of the controller. An answer stays until the next one replaces it."""
    answers = (each for each in context.status.resource_claims if each.controller_name == controller)
    return {node: None for answer in answers for node in answer.unsuitable_nodes}
