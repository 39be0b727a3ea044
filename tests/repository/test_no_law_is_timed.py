"""Hypothesis fails an example that takes longer than 200 ms unless it is told otherwise."""

from hypothesis import HealthCheck, settings


def test_an_example_may_take_as_long_as_a_busy_machine_needs() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    assert settings(max_examples=1).deadline is None
