"""The table has a step for every state, and leads from every state to both goals whatever a step leaves."""

from itertools import product

import pytest

from dradriver_gpu_mig.mps.daemon import DaemonState
from dradriver_gpu_mig.mps.steps import RECORD_STEPS, STEPS, DaemonStep, DesiredDaemon, ObservedDaemon

NOTHING, MOUNTED, RUNNING, ANSWERING = ObservedDaemon
SITUATIONS = [*product([None, *DaemonState], ObservedDaemon)]
MAX_STEPS = 8

Situation = tuple[DaemonState | None, ObservedDaemon]


RECORDED = {
    DaemonStep.RECORD_STARTING: DaemonState.STARTING,
    DaemonStep.RECORD_STOPPING: DaemonState.STOPPING,
    DaemonStep.FINISH: DaemonState.READY,
    DaemonStep.DELETE: None,
}
# The node may have processes whose shared memory is not mounted.
LEFT = {
    DaemonStep.MOUNT: [MOUNTED],
    DaemonStep.START: [ANSWERING],
    DaemonStep.STOP: [MOUNTED, NOTHING],
    DaemonStep.KILL: [MOUNTED, NOTHING],
    DaemonStep.UNMOUNT: [NOTHING],
}


def after(step: DaemonStep, state: DaemonState | None, observed: ObservedDaemon) -> list[Situation]:
    """Return what a step may leave."""
    return [(RECORDED.get(step, state), left) for left in LEFT.get(step, [observed])]


def paths(desired: DesiredDaemon, start: Situation) -> list[list[Situation]]:
    """Return every path to the end of the work."""
    complete, open_paths = [], [[start]]
    while open_paths:
        path = open_paths.pop()
        step = STEPS[desired, *path[-1]]
        if step is DaemonStep.DONE:
            complete.append(path)
            continue
        for situation in after(step, *path[-1]):
            assert situation not in path, f"{step} leads back to {situation}"
            open_paths.append([*path, situation])
    return complete


def test_the_table_has_a_step_for_every_state() -> None:
    assert set(STEPS) == set(product(DesiredDaemon, [None, *DaemonState], ObservedDaemon))


@pytest.mark.parametrize("start", SITUATIONS)
def test_every_state_leads_to_an_answering_daemon(start: Situation) -> None:
    for path in paths(DesiredDaemon.PRESENT, start):
        assert path[-1] == (DaemonState.READY, ANSWERING)
        assert len(path) <= MAX_STEPS


@pytest.mark.parametrize("start", SITUATIONS)
def test_every_state_leads_to_nothing(start: Situation) -> None:
    for path in paths(DesiredDaemon.ABSENT, start):
        assert path[-1] == (None, NOTHING)
        assert len(path) <= MAX_STEPS


def test_nothing_is_made_on_the_node_without_a_record() -> None:
    makers = {DaemonStep.MOUNT, DaemonStep.START, DaemonStep.FINISH}
    assert {state for (_, state, _), step in STEPS.items() if step in makers} == {DaemonState.STARTING}


def test_the_record_is_deleted_only_after_the_node_has_nothing() -> None:
    assert {seen for (_, _, seen), step in STEPS.items() if step is DaemonStep.DELETE} == {NOTHING}


def test_only_steps_of_the_record_leave_the_node_as_it_is() -> None:
    for (_, state, observed), step in STEPS.items():
        if step in RECORD_STEPS:
            assert {seen for _, seen in after(step, state, observed)} == {observed}
