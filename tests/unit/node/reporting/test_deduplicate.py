"""The same again: at once, after one minute, three, seven, up to every hour, with a count."""

from itertools import pairwise

from dradriver.node.reporting.deduplicate import Deduplicator


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_same_again_is_said_at_growing_intervals() -> None:
    clock = Clock()
    repeats = Deduplicator(clock)
    said = []
    for second in range(1000):
        clock.now = second
        if repeats.news("claim", "no"):
            said.append(second)
    assert said == [0, 60, 180, 420, 900]


def test_it_says_how_often() -> None:
    clock = Clock()
    repeats = Deduplicator(clock)
    repeats.news("claim", "no")
    said = []
    for clock.now in (1, 2, 60):
        said.append(repeats.news("claim", "no"))
    assert said == [None, None, "no (again, 3 times in 60 s)"]


def test_never_less_often_than_every_hour() -> None:
    clock = Clock()
    repeats = Deduplicator(clock)
    said = []
    for minute in range(24 * 60):
        clock.now = minute * 60
        if repeats.news("claim", "no"):
            said.append(minute)
    assert max(later - sooner for sooner, later in pairwise(said)) == 60


def test_something_new_is_said_at_once() -> None:
    repeats = Deduplicator(Clock())
    assert repeats.news("claim", "no") == "no"
    assert repeats.news("claim", "not that either") == "not that either"
    assert repeats.news("another", "no") == "no"


def test_after_it_was_well_it_is_said_at_once() -> None:
    repeats = Deduplicator(Clock())
    repeats.news("claim", "no")
    repeats.over("claim")
    assert repeats.news("claim", "no") == "no"


def test_only_so_much_is_remembered() -> None:
    repeats = Deduplicator(Clock())
    for number in range(5000):
        repeats.news(f"claim-{number}", "no")
    assert len(repeats._said) == 1000
