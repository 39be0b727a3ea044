"""READY and STATUS of a pod as kubectl prints them.

ListSource: `printPod` in pkg/printers/internalversion of Kubernetes 1.37.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dradriver.model.core.workload import Pod

__all__ = ["PodSummary", "pod_summary"]


class PodSummary(NamedTuple):
    """Two columns of `kubectl get pods`.

    Attributes:
        ready: number of ready containers and number of all containers: `0/1`.
        status: the phase, or a more specific state: `CrashLoopBackOff`, `Init:0/1`, `Terminating`.
    """

    ready: str
    status: str


class _Container:
    """One entry of a pod's `containerStatuses` or `initContainerStatuses`."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        state = status.get("state") or {}
        terminated = state.get("terminated")
        self.name = str(status.get("name", ""))
        self.ready = bool(status.get("ready"))
        self.started = bool(status.get("started"))
        self.running = state.get("running") is not None
        self.waiting = str((state.get("waiting") or {}).get("reason") or "")
        self.terminated = terminated is not None
        self.exit_code = int((terminated or {}).get("exitCode") or 0)
        signal = (terminated or {}).get("signal")
        code = f"Signal:{signal}" if signal else f"ExitCode:{self.exit_code}"
        self.ended_as = str((terminated or {}).get("reason") or code)


def pod_summary(pod: Pod) -> PodSummary:
    """Return READY and STATUS of the pod.

    Args:
        pod: the pod.
    """
    initializing, sidecars = _initializing(pod)
    status, ready = initializing, 0
    if not initializing or _has(pod, "Initialized"):
        status, ready = _running(pod, initializing or _begin(pod))
    total = len(pod.spec.containers) + len(_sidecars(pod))
    return PodSummary(f"{ready + sidecars}/{total}", _end(pod, status))


def _begin(pod: Pod) -> str:
    """Return the status from the pod's own fields, before the states of its containers are considered."""
    gated = any(
        each.type == "PodScheduled" and each.reason == "SchedulingGated" for each in pod.status.conditions
    )
    return "SchedulingGated" if gated else pod.status.reason or pod.status.phase


def _end(pod: Pod, status: str) -> str:
    """Return the status to show: `status`, unless the pod is being deleted."""
    if pod.metadata.deletion_timestamp is None:
        return status
    if pod.status.reason == "NodeLost":
        return "Unknown"
    return status if pod.finished else "Terminating"


def _sidecars(pod: Pod) -> set[str]:
    return {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}


def _initializing(pod: Pod) -> tuple[str, int]:
    """Return the state of the first unfinished init container, or "", and the number of ready sidecars."""
    sidecars, ready = _sidecars(pod), 0
    for number, status in enumerate(pod.status.init_container_statuses):
        each = _Container(status)
        if each.terminated and not each.exit_code:
            continue
        if each.name in sidecars and each.started:
            ready += each.ready
            continue
        if each.terminated:
            return f"Init:{each.ended_as}", ready
        if each.waiting and each.waiting != "PodInitializing":
            return f"Init:{each.waiting}", ready
        return f"Init:{number}/{len(pod.spec.init_containers)}", ready
    return "", ready


def _running(pod: Pod, status: str) -> tuple[str, int]:
    """Return the status that the containers give, and the number of ready containers.

    If several containers give a status, the first container takes precedence.
    """
    ready, error = 0, ""
    for each in map(_Container, reversed(pod.status.container_statuses)):
        if each.waiting:
            status = each.waiting
        elif each.terminated:
            status = each.ended_as
            error = status if each.exit_code else error
        elif each.ready and each.running:
            ready += 1
    if status == "Completed":
        if ready and _has(pod, "Ready"):
            return "Running", ready
        status = error or ("NotReady" if ready else status)
    return status, ready


def _has(pod: Pod, condition: str) -> bool:
    return any(each.type == condition and each.status == "True" for each in pod.status.conditions)
