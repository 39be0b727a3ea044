"""A repeated text is reported after one minute, three, seven, up to every hour, with a count."""

from itertools import pairwise

from dradriver.node.reporting.deduplicate import Deduplicator


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_repeated_text_is_reported_at_growing_intervals() -> None:
    clock = Clock()
    repeats = Deduplicator(clock)
    reported = []
    for second in range(1000):
        clock.now = second
        if repeats.select("claim", "no"):
            reported.append(second)
    assert reported == [0, 60, 180, 420, 900]


def test_a_repeated_text_has_a_count() -> None:
    clock = Clock()
    repeats = Deduplicator(clock)
    repeats.select("claim", "no")
    reported = []
    for clock.now in (1, 2, 60):
        reported.append(repeats.select("claim", "no"))
    assert reported == [None, None, "no (repeated 3 times in 60 s)"]


def test_the_interval_is_at_most_one_hour() -> None:
    clock = Clock()
    repeats = Deduplicator(clock)
    reported = []
    for minute in range(24 * 60):
        clock.now = minute * 60
        if repeats.select("claim", "no"):
            reported.append(minute)
    assert max(later - sooner for sooner, later in pairwise(reported)) == 60


def test_a_new_text_is_reported_immediately() -> None:
    repeats = Deduplicator(Clock())
    assert repeats.select("claim", "no") == "no"
    assert repeats.select("claim", "not that either") == "not that either"
    assert repeats.select("another", "no") == "no"


def test_a_text_is_reported_immediately_after_a_reset() -> None:
    repeats = Deduplicator(Clock())
    repeats.select("claim", "no")
    repeats.reset("claim")
    assert repeats.select("claim", "no") == "no"


def test_the_number_of_subjects_is_limited() -> None:
    repeats = Deduplicator(Clock())
    for number in range(5000):
        repeats.select(f"claim-{number}", "no")
    assert len(repeats._reports) == 1000
