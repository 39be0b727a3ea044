"""Finds allocated claims that the node cannot prepare."""

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

    Args:
        world: the world with the events to search.
        pod: the pod.

    Returns:
        The event; None if the pod's sandbox exists, because the kubelet prepares claims before it creates the
        sandbox.
    """
    if pod.status.phase not in {"", "Pending"} or not pod.spec.node_name or _has_sandbox(pod):
        return None
    about = [event for event in world.events if event.reason == PREPARE_FAILED and _is_about(event, pod)]
    return max(about, key=lambda event: event.last_seen, default=None)


def with_failure(states: Sequence[ClaimStage], event: PodEvent, now: datetime | None) -> tuple[ClaimStage, ...]:
    """Return the states of a pod's claims, with the kubelet's message in each claim that it may concern.

    Args:
        states: states of all claims of the pod, as the API server knows them.
        event: the kubelet's event. If its message names claims of the pod, these claims get the message. If it
            names only a driver, all claims with devices of this driver get it. If it names neither, all claims
            get it, because the kubelet prepares a pod's claims together and any of them may have failed.
        now: time of the explanation.
    """
    ready = [state for state in states if state.state == "ready"]
    named = [state for state in ready if _names(event.message, state.claim.partition("/")[2])]
    named = named or [
        state for state in ready if any(_names(event.message, each.driver) for each in state.results)
    ]
    named = named or ready
    return tuple(
        replace(state, state="not-prepared", failure=event.message, failed_at=event.last_seen, now=now)
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
