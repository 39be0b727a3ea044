"""The table of steps and the order of containers, without I/O."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dradriver.cluster.kubelet.pods.container_state import ContainerState, Stage
from dradriver.cluster.kubelet.pods.pod_plan import PodFacts, PodStep, next_step, plan_containers
from dradriver.model.core.workload import Container, PodSpec

IDLE = PodFacts(
    terminating=False,
    exists=True,
    running=True,
    completed=False,
    has_claims=True,
    prepared=True,
    has_due_containers=False,
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (IDLE, PodStep.WAIT),
        (replace(IDLE, has_due_containers=True), PodStep.START),
        (replace(IDLE, prepared=False, has_due_containers=True, running=False), PodStep.PREPARE),
        (replace(IDLE, terminating=True, prepared=False, has_due_containers=True), PodStep.STOP),
        (replace(IDLE, terminating=True, running=False), PodStep.UNPREPARE),
        (replace(IDLE, terminating=True, running=False, has_claims=False), PodStep.REMOVE),
        (replace(IDLE, terminating=True, running=False, has_claims=False, exists=False), PodStep.DONE),
        (replace(IDLE, completed=True), PodStep.STOP),
        (replace(IDLE, completed=True, running=False), PodStep.UNPREPARE),
        (replace(IDLE, completed=True, running=False, has_claims=False, prepared=False), PodStep.WAIT),
    ],
)
def test_the_first_matching_line_decides(facts: PodFacts, step: PodStep) -> None:
    assert next_step(facts) is step


def spec(policy: str = "Always", init: tuple[Container, ...] = ()) -> PodSpec:
    main = [Container(name="a"), Container(name="b")]
    return PodSpec(containers=main, init_containers=list(init), restart_policy=policy)


def states(**stages: ContainerState) -> dict[str, ContainerState]:
    return {name: replace(state, name=name) for name, state in stages.items()}


WAITING = ContainerState(name="")
RUNNING = WAITING.to_running("x://1", NOW)
DONE = RUNNING.to_terminated(0, NOW, 0.0, 10.0)
FAILED = RUNNING.to_terminated(1, NOW, 0.0, 10.0)


def test_all_containers_start_together() -> None:
    assert plan_containers(spec(), states(a=WAITING, b=WAITING), 0.0).start == ("a", "b")


def test_nothing_starts_before_its_init_container_is_done() -> None:
    plan = plan_containers(spec(init=(Container(name="i"),)), states(i=RUNNING, a=WAITING, b=WAITING), 0.0)
    assert (plan.start, plan.initialized) == ((), False)


def test_others_start_as_soon_as_a_sidecar_runs() -> None:
    sidecar = Container(name="i", restart_policy="Always")
    plan = plan_containers(spec(init=(sidecar,)), states(i=RUNNING, a=WAITING, b=WAITING), 0.0)
    assert plan.start == ("a", "b")


def test_a_pod_is_completed_when_no_container_will_run_again() -> None:
    assert plan_containers(spec("Never"), states(a=DONE, b=FAILED), 0.0).completed
    assert plan_containers(spec("OnFailure"), states(a=DONE, b=DONE), 0.0).completed
    assert not plan_containers(spec("OnFailure"), states(a=DONE, b=FAILED), 0.0).completed
    assert not plan_containers(spec("Always"), states(a=DONE, b=DONE), 0.0).completed
    assert not plan_containers(spec("Never"), states(a=DONE, b=RUNNING), 0.0).completed


def test_the_backoff_doubles_after_an_immediate_first_restart() -> None:
    state, waits = WAITING, []
    for clock in (0.0, 100.0, 200.0, 300.0):
        state = state.to_running("x://1", NOW).to_terminated(1, NOW, clock, 10.0)
        waits.append(state.not_before - clock)
    assert waits == [0.0, 10.0, 20.0, 40.0]
    assert state.restarts == 3


def test_a_long_run_resets_the_backoff() -> None:
    state = WAITING.to_running("x://1", NOW).to_terminated(1, NOW, 0.0, 10.0).to_running("x://2", NOW)
    assert state.to_terminated(1, NOW + timedelta(minutes=11), 5.0, 10.0).not_before == 5.0


def test_the_plan_has_the_time_of_the_next_check() -> None:
    later = replace(FAILED, not_before=7.0)
    plan = plan_containers(spec(), states(a=later, b=RUNNING), 3.0)
    assert (plan.start, plan.next_check) == ((), 7.0)


def test_a_status_reads_back_as_the_same_state() -> None:
    status = FAILED.status(Container(name=""), restarting=False)
    read = ContainerState.from_status("", status, NOW)
    assert (read.stage, read.last_exit, read.restarts) == (Stage.TERMINATED, FAILED.last_exit, 0)
