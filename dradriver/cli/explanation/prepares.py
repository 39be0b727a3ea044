"""Claims that are allocated and ready in the cluster, but that a node fails to prepare."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from dradriver.cli.explanation.claims import ClaimStage
from dradriver.cli.world import PREPARE_FAILED, PodEvent, World
from dradriver.model.core.workload import Pod

__all__ = ["prepare_failure", "with_failure"]


def prepare_failure(world: World, pod: Pod) -> PodEvent | None:
    """Return the kubelet's last event about a failed prepare of the pod's claims.

    Returns:
        The event; None if the pod's sandbox exists, because claims are prepared before it is created.
    """
    if pod.status.phase not in {"", "Pending"} or not pod.spec.node_name or _has_sandbox(pod):
        return None
    about = [event for event in world.events if event.reason == PREPARE_FAILED and _is_about(event, pod)]
    return max(about, key=lambda event: event.when, default=None)


def with_failure(states: Sequence[ClaimStage], event: PodEvent, now: datetime | None) -> tuple[ClaimStage, ...]:
    """Return the states of a pod's claims, with the kubelet's message at those that it fails to prepare.

    Args:
        states: states of all claims of the pod, as the API server knows them.
        event: the kubelet's event. It names a claim, or a driver that all of its claims need. If it names
            neither, any of the claims may be meant, because the kubelet prepares a pod's claims together.
        now: time of the answer.
    """
    ready = [state for state in states if state.state == "ready"]
    named = [state for state in ready if _names(event.message, state.claim.partition("/")[2])]
    named = named or [
        state for state in ready if any(_names(event.message, each.driver) for each in state.results)
    ]
    named = named or ready
    return tuple(
        replace(state, state="not-prepared", failure=event.message, failed_at=event.when, now=now)
        if state in named
        else state
        for state in states
    )


def _has_sandbox(pod: Pod) -> bool:
    return any(c.type == "PodReadyToStartContainers" and c.status == "True" for c in pod.status.conditions)


def _is_about(event: PodEvent, pod: Pod) -> bool:
    involved = event.involved_object
    if involved.kind != "Pod":
        return False
    if involved.uid and pod.metadata.uid:
        return involved.uid == pod.metadata.uid
    return (involved.namespace, involved.name) == (pod.metadata.namespace, pod.metadata.name)


def _names(message: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", message) is not None
