"""Computes a pod's status from the states of its containers. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dradriver.cluster.kubelet.pods.container_state import ContainerState, Stage
from dradriver.cluster.kubelet.pods.pod_plan import ContainerPlan, get_restart_policy, is_restarted
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.model.core.workload import Container, PodSpec
from dradriver.model.encoding.codec import rfc3339

__all__ = ["build_pod_status", "compute_phase"]

Resources = Callable[[Container], list[dict[str, Any]]]


def compute_phase(spec: PodSpec, states: Mapping[str, ContainerState], plan: ContainerPlan) -> str:
    """Return the pod's phase, from its containers alone."""
    if plan.completed:
        ends = [states[container.name].last_exit for container in [*spec.init_containers, *spec.containers]]
        main = ends[len(spec.init_containers) :]
        failed = not plan.initialized or any(end is None or end.exit_code != 0 for end in main)
        return "Failed" if failed else "Succeeded"
    begun = all(
        states[container.name].stage is Stage.RUNNING or states[container.name].last_exit is not None
        for container in spec.containers
    )
    return "Running" if plan.initialized and begun else "Pending"


def build_pod_status(
    pod: NodePod,
    states: Mapping[str, ContainerState],
    plan: ContainerPlan,
    *,
    finished: bool,
    resources: Resources,
    now: datetime,
) -> dict[str, Any]:
    """Return the status fields that the kubelet owns.

    Args:
        pod: the pod with its current status.
        states: states of the pod's containers.
        plan: which containers are due.
        finished: whether a final phase may be reported, because all containers are gone and the pod has no
            claim to unprepare.
        resources: returns `allocatedResourcesStatus` of a container.
        now: the time for conditions that changed.
    """
    phase = compute_phase(pod.spec, states, plan)
    if phase in {"Succeeded", "Failed"} and not finished:
        phase = "Running"
    all_ready = all(states[container.name].stage is Stage.RUNNING for container in pod.spec.containers)
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else "ContainersNotReady"
    ready = _build_condition(all_ready, why, "containers are not ready")
    conditions = {
        "Initialized": _build_condition(
            plan.initialized, "ContainersNotInitialized", "init containers are not done"
        ),
        "ContainersReady": ready,
        "Ready": ready,
    }
    if phase == "Succeeded":
        conditions["Initialized"] = {"status": "True", "reason": "PodCompleted"}
    return {
        "phase": phase,
        "startTime": rfc3339(pod.status.start_time or now),
        "hostIP": "127.0.0.1",
        "conditions": [_keep_time(pod, name, condition, now) for name, condition in conditions.items()],
        "initContainerStatuses": [
            _build_container_status(pod, c, states[c.name], resources) for c in pod.spec.init_containers
        ],
        "containerStatuses": [
            _build_container_status(pod, c, states[c.name], resources) for c in pod.spec.containers
        ],
    }


def _build_container_status(
    pod: NodePod, container: Container, state: ContainerState, resources: Resources
) -> dict[str, Any]:
    restarting = (
        is_restarted(state, get_restart_policy(pod.spec, container)) and pod.metadata.deletion_timestamp is None
    )
    status = state.status(container, restarting=restarting)
    if container in pod.spec.init_containers and container.restart_policy != "Always":
        status["ready"] = state.last_exit is not None and state.last_exit.exit_code == 0
    if allocated := resources(container):
        status["allocatedResourcesStatus"] = allocated
    return status


def _build_condition(holds: bool, reason: str, message: str) -> dict[str, str]:  # noqa: FBT001
    return {"status": "True"} if holds else {"status": "False", "reason": reason, "message": message}


def _keep_time(pod: NodePod, name: str, condition: dict[str, str], now: datetime) -> dict[str, str | None]:
    """Return the condition with the time of its last change.

    If the condition has no reason or message, the result contains null, which removes the field from the
    status.
    """
    before = next((each for each in pod.status.conditions if each.type == name), None)
    kept = before is not None and before.status == condition["status"] and before.last_transition_time
    return {
        "type": name,
        "reason": None,
        "message": None,
        **condition,
        "lastTransitionTime": rfc3339(kept or now),
    }
