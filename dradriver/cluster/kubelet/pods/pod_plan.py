"""The next step for a pod, as pure decisions.

| the pod                                                     | step      |
|-------------------------------------------------------------|-----------|
| is leaving or has nothing left to run, and a container runs | STOP      |
| is leaving or has nothing left to run, and has a claim      | UNPREPARE |
| is leaving, and its object exists                           | REMOVE    |
| is leaving, and its object is gone                          | DONE      |
| has nothing left to run                                     | WAIT      |
| its claims are not prepared                                 | PREPARE   |
| a container is due                                          | START     |
| otherwise                                                   | WAIT      |

The first row that applies decides. All claims are prepared before the first container starts. They are
unprepared after the last container has ended and before the pod is reported as finished. Otherwise, another pod
could get a claim too early.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dradriver.cluster.kubelet.pods.container_state import ContainerState, Stage
from dradriver.model.core.workload import Container, PodSpec

__all__ = ["ContainerPlan", "PodFacts", "PodStep", "is_restarted", "next_step", "plan_containers"]


class PodStep(StrEnum):
    """The next step of a pod's worker."""

    STOP = "stop containers"
    UNPREPARE = "unprepare claims"
    REMOVE = "remove the pod"
    DONE = "done"
    PREPARE = "prepare claims"
    START = "start containers"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """The input of the decision.

    Attributes:
        terminating: whether the pod is being deleted or gone.
        exists: whether the pod exists in the API server.
        running: whether a container runs.
        completed: whether no container of the pod will run again.
        has_claims: whether the pod has claims that may need an unprepare.
        prepared: whether the pod's claims are prepared, or it has none.
        has_due_containers: whether a container must be started now.
    """

    terminating: bool
    exists: bool
    running: bool
    completed: bool
    has_claims: bool
    prepared: bool
    has_due_containers: bool


def next_step(facts: PodFacts) -> PodStep:
    """Return the step from the table above."""
    ending = facts.terminating or facts.completed
    table = (
        (ending and facts.running, PodStep.STOP),
        (ending and facts.has_claims, PodStep.UNPREPARE),
        (facts.terminating and facts.exists, PodStep.REMOVE),
        (facts.terminating, PodStep.DONE),
        (facts.completed, PodStep.WAIT),
        (not facts.prepared, PodStep.PREPARE),
        (facts.has_due_containers, PodStep.START),
    )
    return next((step for holds, step in table if holds), PodStep.WAIT)


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The containers that are due, the time of the next check, and whether no container will run again.

    Attributes:
        start: names of containers to start now, in order.
        next_check: when the next container is due, in seconds of the caller's clock.
        completed: whether no container will run again, except sidecars that still run.
        initialized: whether all init containers have succeeded and all sidecars are running.
    """

    start: tuple[str, ...] = ()
    next_check: float | None = None
    completed: bool = False
    initialized: bool = True


def is_restarted(state: ContainerState, policy: str) -> bool:
    """Return whether an ended container must be started again."""
    if state.stage is not Stage.TERMINATED or state.last_exit is None:
        return False
    return policy == "Always" or (policy == "OnFailure" and state.last_exit.exit_code != 0)


def plan_containers(spec: PodSpec, states: Mapping[str, ContainerState], now: float) -> ContainerPlan:
    """Return which of the pod's containers are due: init containers one after another, then all others."""
    main = [states[container.name] for container in spec.containers]
    runnable = [
        state for state in main if state.stage is Stage.WAITING or is_restarted(state, spec.restart_policy)
    ]
    if not runnable and all(state.stage is Stage.TERMINATED for state in main):
        # If sidecars still run, they are stopped and not started again.
        return ContainerPlan(completed=True)
    wanted: list[ContainerState] = []
    for container in spec.init_containers:
        state, policy = states[container.name], get_restart_policy(spec, container)
        if state.stage is Stage.WAITING or is_restarted(state, policy):
            wanted.append(state)
        if not _lets_others_start(container, state):
            failed = state.stage is Stage.TERMINATED and not is_restarted(state, policy)
            return _make_plan(wanted, now, completed=failed, initialized=False)
    return _make_plan(wanted + runnable, now, completed=False, initialized=True)


def _lets_others_start(init: Container, state: ContainerState) -> bool:
    """Return whether a sidecar has begun, or any other init container has succeeded."""
    if init.restart_policy == "Always":
        return state.stage is Stage.RUNNING or state.last_exit is not None
    return _has_succeeded(state)


def _get_init_policy(spec: PodSpec) -> str:
    """Return the restart policy of init containers: `OnFailure`, unless the pod's policy is `Never`."""
    return "Never" if spec.restart_policy == "Never" else "OnFailure"


def _has_succeeded(state: ContainerState) -> bool:
    return state.stage is Stage.TERMINATED and state.last_exit is not None and state.last_exit.exit_code == 0


def _make_plan(
    wanted: list[ContainerState], now: float, *, completed: bool, initialized: bool
) -> ContainerPlan:
    start = tuple(state.name for state in wanted if state.not_before <= now)
    later = min((state.not_before for state in wanted if state.not_before > now), default=None)
    return ContainerPlan(start, later, completed, initialized)


def get_restart_policy(spec: PodSpec, container: Container) -> str:
    """Return the restart policy of a container."""
    if container in spec.init_containers:
        return "Always" if container.restart_policy == "Always" else _get_init_policy(spec)
    return spec.restart_policy
