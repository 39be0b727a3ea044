"""The life of a claim: every pair of state and event is either in the table or an error."""

from itertools import product

import pytest

from dradriver.node.state.claim_states import (
    MOVES,
    ClaimEvent,
    ClaimState,
    IllegalMoveError,
    NextStep,
    move,
    next_step,
)


@pytest.mark.parametrize(("state", "event"), list(product(ClaimState, ClaimEvent)))
def test_a_move_is_in_the_table_or_raises(state: ClaimState, event: ClaimEvent) -> None:
    if (state, event) in MOVES:
        assert move(state, event) is MOVES[state, event]
    else:
        with pytest.raises(IllegalMoveError, match=f'{state}: event "{event}" is not allowed'):
            move(state, event)


def test_every_state_can_be_reached_and_left() -> None:
    assert set(MOVES.values()) == set(ClaimState)
    assert {before for before, _ in MOVES} == set(ClaimState)


@pytest.mark.parametrize("state", sorted(set(ClaimState) - {ClaimState.ABSENT}))
def test_every_claim_can_be_unprepared(state: ClaimState) -> None:
    assert move(move(state, ClaimEvent.BEGIN_UNPREPARE), ClaimEvent.FINISH_UNPREPARE) is ClaimState.ABSENT


@pytest.mark.parametrize(
    ("state", "same_devices", "same_boot", "step"),
    [
        (ClaimState.ABSENT, True, True, NextStep.RECORD),
        (ClaimState.PREPARING, True, True, NextStep.ADOPT),
        (ClaimState.PREPARING, True, False, NextStep.ADOPT),
        (ClaimState.PREPARED, True, True, NextStep.ANSWER),
        (ClaimState.PREPARED, True, False, NextStep.ADOPT),
        (ClaimState.PREPARED, False, True, NextStep.UNPREPARE),
        (ClaimState.UNPREPARING, True, True, NextStep.UNPREPARE),
    ],
)
def test_the_first_step_of_a_prepare_follows_from_the_record(
    state: ClaimState, same_devices: bool, same_boot: bool, step: NextStep
) -> None:
    assert next_step(state, same_devices=same_devices, same_boot=same_boot) is step
