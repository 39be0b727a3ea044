"""Properties of `PollSchedule`, with a simulated clock."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dradriver_fpga.card.poll_schedule import PollSchedule

PERIOD = 30.0


def looked(at: float) -> PollSchedule:
    schedule = PollSchedule(PERIOD)
    schedule.record_read(at)
    return schedule


def test_the_first_read_is_due_at_once() -> None:
    assert PollSchedule(PERIOD).due == 0.0


def test_without_changes_the_next_look_is_a_period_later() -> None:
    assert looked(100.0).due == 130.0


def test_a_change_is_read_soon() -> None:
    schedule = looked(100.0)
    schedule.record_change(110.0)
    assert 110.0 < schedule.due <= 110.25


def test_after_a_change_there_is_one_more_look() -> None:
    """The kernel reports the removal of a device before the device is gone."""
    schedule = looked(100.0)
    schedule.record_change(110.0)
    schedule.record_read(schedule.due)
    assert schedule.due < 111.0
    schedule.record_read(schedule.due)
    assert schedule.due > 140.0


def test_a_look_that_failed_is_tried_again() -> None:
    schedule = looked(100.0)
    schedule.record_failure(130.0, 5.0)
    assert schedule.due == 135.0


@given(st.lists(st.floats(0.0, 60.0), min_size=1).map(sorted))
def test_every_change_is_read_within_half_a_second_and_reads_keep_an_interval(changes: list[float]) -> None:
    schedule, looks = looked(0.0), [0.0]
    for change in changes:
        while schedule.due <= change:
            looks.append(schedule.due)
            schedule.record_read(schedule.due)
        schedule.record_change(change)
        assert schedule.due - change <= 0.5
    assert all(later - earlier >= 0.249 for earlier, later in pairwise(looks))
