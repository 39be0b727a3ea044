"""A nominated plan has scores, and expires."""

from dradriver.extender.nominations import Nominations


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_nomination_expires_after_its_time() -> None:
    clock = Clock()
    nominations = Nominations(clock)
    nominations.add("a", 10.0, {"node-1": 1.0})
    clock.now += 4.0
    assert nominations.seconds_left("a") == 6.0
    clock.now += 6.0
    assert nominations.seconds_left("a") == 0.0
    assert "a" in nominations  # its owner removes it with the plan


def test_a_new_nomination_replaces_the_scores_and_the_time() -> None:
    clock = Clock()
    nominations = Nominations(clock)
    nominations.add("a", 10.0, {"node-1": 1.0})
    clock.now += 4.0
    nominations.add("a", 10.0, {"node-2": 0.5})
    assert nominations.scores("a") == {"node-2": 0.5}
    assert nominations.seconds_left("a") == 10.0


def test_a_pod_without_a_nomination_has_no_scores() -> None:
    nominations = Nominations()
    assert nominations.scores("a") == {}
    nominations.discard("a")
    nominations.add("a", 1.0, {"node-1": 1.0})
    nominations.discard("a")
    assert "a" not in nominations
