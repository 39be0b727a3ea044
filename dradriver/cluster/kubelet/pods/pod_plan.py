"""The next step for a pod, as pure decisions.

| the pod                                        | step      |
|------------------------------------------------|-----------|
| leaves or has nothing left to run, a container runs | STOP |
| the same, a claim is held                      | UNPREPARE |
| leaves, its object exists                      | REMOVE    |
| leaves, its object is gone                     | DONE      |
| has nothing left to run                        | WAIT      |
| its claims are not prepared                    | PREPARE   |
| a container is due                             | START     |
| otherwise                                      | WAIT      |

The first line that applies decides. All prepares come before the first container. Unprepare comes after the
last container and before the pod is reported as finished, so that no claim is given to another pod too early.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dradriver.cluster.kubelet.pods.container_state import ContainerState, Stage
from dradriver.model.core.workload import Container, PodSpec

__all__ = ["ContainerPlan", "PodFacts", "PodStep", "next_step", "plan_containers", "restarts"]


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
        leaving: the pod is being deleted or gone.
        exists: the API server has the object.
        running: a container runs.
        settled: no container of the pod will run again.
        holds_claims: a claim may have to be unprepared for it.
        prepared: its claims are prepared, or it has none.
        due: containers to start now.
    """

    leaving: bool
    exists: bool
    running: bool
    settled: bool
    holds_claims: bool
    prepared: bool
    due: bool


def next_step(facts: PodFacts) -> PodStep:
    """Return the step from the table above."""
    ending = facts.leaving or facts.settled
    table = (
        (ending and facts.running, PodStep.STOP),
        (ending and facts.holds_claims, PodStep.UNPREPARE),
        (facts.leaving and facts.exists, PodStep.REMOVE),
        (facts.leaving, PodStep.DONE),
        (facts.settled, PodStep.WAIT),
        (not facts.prepared, PodStep.PREPARE),
        (facts.due, PodStep.START),
    )
    return next((step for holds, step in table if holds), PodStep.WAIT)


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The containers that are due, the time of the next check, and whether none will run again.

    Attributes:
        start: names of containers to start now, in order.
        look_again: when the next one is due, in seconds of the caller's clock.
        settled: no container will run again, except sidecars that still run.
        initialized: all init containers are done (sidecars: running).
    """

    start: tuple[str, ...] = ()
    look_again: float | None = None
    settled: bool = False
    initialized: bool = True


def restarts(state: ContainerState, policy: str) -> bool:
    """Return whether a container that ended is started again."""
    if state.stage is not Stage.TERMINATED or state.ending is None:
        return False
    return policy == "Always" or (policy == "OnFailure" and state.ending.exit_code != 0)


def plan_containers(spec: PodSpec, states: Mapping[str, ContainerState], now: float) -> ContainerPlan:
    """Return which of the pod's containers are due: init containers one after the other, then all others."""
    main = [states[container.name] for container in spec.containers]
    runnable = [state for state in main if state.stage is Stage.WAITING or restarts(state, spec.restart_policy)]
    if not runnable and all(state.stage is Stage.TERMINATED for state in main):
        # Sidecars that still run are stopped and not started again.
        return ContainerPlan(settled=True)
    wanted: list[ContainerState] = []
    for container in spec.init_containers:
        state, policy = states[container.name], policy_of(spec, container)
        if state.stage is Stage.WAITING or restarts(state, policy):
            wanted.append(state)
        if not _lets_others_start(container, state):
            failed = state.stage is Stage.TERMINATED and not restarts(state, policy)
            return _due(wanted, now, settled=failed, initialized=False)
    return _due(wanted + runnable, now, settled=False, initialized=True)


def _lets_others_start(init: Container, state: ContainerState) -> bool:
    """Return whether a sidecar has begun, or any other init container has succeeded."""
    if init.restart_policy == "Always":
        return state.stage is Stage.RUNNING or state.ending is not None
    return _succeeded(state)


def _init_policy(spec: PodSpec) -> str:
    """Return the restart policy of init containers: they are retried on failure unless the pod's is Never."""
    return "Never" if spec.restart_policy == "Never" else "OnFailure"


def _succeeded(state: ContainerState) -> bool:
    return state.stage is Stage.TERMINATED and state.ending is not None and state.ending.exit_code == 0


def _due(wanted: list[ContainerState], now: float, *, settled: bool, initialized: bool) -> ContainerPlan:
    start = tuple(state.name for state in wanted if state.not_before <= now)
    later = min((state.not_before for state in wanted if state.not_before > now), default=None)
    return ContainerPlan(start, later, settled, initialized)


def policy_of(spec: PodSpec, container: Container) -> str:
    """Return the restart policy of a container."""
    if container in spec.init_containers:
        return "Always" if container.restart_policy == "Always" else _init_policy(spec)
    return spec.restart_policy
