"""Decide on the potential nodes and the selected node of a pod, as a function of the controllers' answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.control.classic.values import AwaitedClaim, find_answer
from dradriver.control.runtime.actions import WriteContext
from dradriver.model.classic.names import MAX_POTENTIAL_NODES
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.workload import Pod

__all__ = [
    "WAITING_FOR_ALLOCATION",
    "WAITING_FOR_INFORMATION",
    "Negotiation",
    "describe_wait",
    "find_unsuitable",
    "negotiate",
    "write_spec",
]

WAITING_FOR_INFORMATION: Final = "waiting for resource driver to provide information"
"""The message while no node is selected (KEP-3063, Troubleshooting)."""
WAITING_FOR_ALLOCATION: Final = "waiting for resource driver to allocate resource"
"""The message while a node is selected (KEP-3063, Troubleshooting)."""


@dataclass(frozen=True, slots=True)
class Negotiation:
    """The next round.

    Attributes:
        spec: what the scheduler writes. Without a selected node, the pod waits for answers.
        unanswered: the claims whose controllers must answer before a node is selected.
    """

    spec: SchedulingSpec
    unanswered: tuple[AwaitedClaim, ...] = ()


def negotiate(
    context: PodSchedulingContext | None, awaited: Sequence[AwaitedClaim], suitable: Sequence[str]
) -> Negotiation:
    """Return the next round for a pod with at least one suitable node.

    If exactly one claim is unallocated, the node is selected at once: if it is unsuitable, the controller
    answers, and the next round is better. With several claims, one allocation may succeed and another may fail,
    which leads to a deallocation. So the pod waits until each controller has answered.

    Args:
        context: the context of the pod.
        awaited: the claims that controllers must allocate.
        suitable: the nodes that suit the pod, without those that an answer calls unsuitable. The best is first.
            At most `MAX_POTENTIAL_NODES` are listed: nodes that are listed already first.

    Source: KEP-3063, "Resource allocation and usage flow".
    """
    best = suitable[0]
    listed = context.spec.potential_nodes if context is not None else []
    potential = _choose_potential(listed, suitable)
    unanswered = tuple(each for each in awaited if find_answer(context, each) is None)
    if len(awaited) > 1 and unanswered:
        return Negotiation(SchedulingSpec(potential_nodes=potential), unanswered)
    return Negotiation(SchedulingSpec(selected_node=best, potential_nodes=potential))


def _choose_potential(listed: Sequence[str], suitable: Sequence[str]) -> list[str]:
    """Return the potential nodes: listed nodes stay as long as they suit, and the best node is always one."""
    suits = frozenset(suitable)
    kept = (name for name in listed if name in suits)
    chosen = list(dict.fromkeys([*kept, *suitable]))[:MAX_POTENTIAL_NODES]
    if suitable[0] not in chosen:
        chosen[-1] = suitable[0]
    return chosen


def find_unsuitable(
    context: PodSchedulingContext | None, awaited: Iterable[AwaitedClaim]
) -> dict[str, AwaitedClaim]:
    """Return the nodes that an answer calls unsuitable, each with the first such claim."""
    unsuitable: dict[str, AwaitedClaim] = {}
    for each in awaited:
        answer = find_answer(context, each)
        for name in answer.unsuitable_nodes if answer is not None else ():
            unsuitable.setdefault(name, each)
    return unsuitable


def write_spec(pod: Pod, context: PodSchedulingContext | None, spec: SchedulingSpec) -> WriteContext | None:
    """Return the write of a round; None if the context has this content already.

    Args:
        pod: the pod.
        context: the object that has the pod's name, which may belong to an earlier pod.
        spec: what the scheduler wants.
    """
    if context is not None and context.is_for(pod.metadata.uid) and context.spec == spec:
        return None
    return WriteContext(pod, spec, context)


def describe_wait(message: str, awaited: Iterable[AwaitedClaim], context: PodSchedulingContext | None) -> str:
    """Return a message that also names the drivers, the claims and the round.

    Args:
        message: `WAITING_FOR_INFORMATION` or `WAITING_FOR_ALLOCATION`.
        awaited: the claims for which the pod waits.
        context: the context of the pod.
    """
    drivers = ", ".join(map(str, awaited))
    generation = context.metadata.generation if context is not None else 0
    return f"{message}: {drivers} (round {generation})" if generation else f"{message}: {drivers}"
