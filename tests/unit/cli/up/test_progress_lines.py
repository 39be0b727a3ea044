"""Lines of `dradriver up` have the time of day, and their repeats are counted."""

import logging
from datetime import datetime, timedelta

import pytest

from dradriver.cli.up.progress_lines import ProgressLines

NOON = datetime(2026, 11, 23, 12)  # noqa: DTZ001 - the local time


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def written() -> list[str]:
    return []


@pytest.fixture
def lines(written: list[str], clock: Clock) -> ProgressLines:
    return ProgressLines(written.append, clock)


def test_a_line_begins_with_the_time_of_day(lines: ProgressLines, written: list[str], clock: Clock) -> None:
    lines.report("first")
    clock.forward(61)
    lines.report("second")
    assert written == ["12:00:00 first", "12:01:01 second"]


def test_a_line_that_repeats_is_printed_at_each_doubling_of_its_number(
    lines: ProgressLines, written: list[str], clock: Clock
) -> None:
    for number in range(9):
        lines.report(f"driver ended; restarting in {number} s", key="driver ended")
        clock.forward(10)
    assert written == [
        "12:00:00 driver ended; restarting in 0 s",
        "12:00:10 driver ended; restarting in 1 s (2 times since 12:00:00)",
        "12:00:30 driver ended; restarting in 3 s (4 times since 12:00:00)",
        "12:01:10 driver ended; restarting in 7 s (8 times since 12:00:00)",
    ]


def test_lines_that_alternate_are_counted_separately(lines: ProgressLines, written: list[str]) -> None:
    for _ in range(3):
        lines.report("ended")
        lines.report("ready")
    assert written == [
        "12:00:00 ended",
        "12:00:00 ready",
        "12:00:00 ended (2 times since 12:00:00)",
        "12:00:00 ready (2 times since 12:00:00)",
    ]


def test_after_five_minutes_the_line_is_new(lines: ProgressLines, written: list[str], clock: Clock) -> None:
    for _ in range(3):
        lines.report("ended")
    clock.forward(301)
    lines.report("ended")
    assert written == [
        "12:00:00 ended",
        "12:00:00 ended (2 times since 12:00:00)",
        "12:05:01 ended (3 times since 12:00:00, last at 12:00:00)",
        "12:05:01 ended",
    ]


def test_the_final_number_is_printed_at_the_end(lines: ProgressLines, written: list[str], clock: Clock) -> None:
    for _ in range(7):
        lines.report("ended; restarting soon", key="ended")
        clock.forward(1)
    lines.report("once")
    lines.finish()
    assert written[-2:] == ["12:00:07 once", "12:00:07 ended (7 times since 12:00:00, last at 12:00:06)"]


def test_warnings_of_the_log_get_the_time_and_are_counted(lines: ProgressLines, written: list[str]) -> None:
    log = logging.getLogger("dradriver.tests.up")
    with lines.logged():
        for _ in range(2):
            log.warning("pod %s: no sandbox", "a")
        log.info("not shown")
    assert written == [
        "12:00:00 warning: dradriver.tests.up: pod a: no sandbox",
        "12:00:00 warning: dradriver.tests.up: pod a: no sandbox (2 times since 12:00:00)",
    ]


def test_old_lines_are_forgotten(lines: ProgressLines, written: list[str]) -> None:
    for number in range(1001):
        lines.report(f"pod {number}")
    lines.report("pod 0")
    assert written[-1] == "12:00:00 pod 0"
