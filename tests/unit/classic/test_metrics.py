"""The metrics of a controller exist before anything has failed."""

from typing import get_args

from dradriver.classic.metrics import ControllerMetrics
from dradriver.classic.reports import Failure
from tests.unit.classic.shelf import CONTROLLER


def test_each_kind_of_failure_is_zero_at_first() -> None:
    registry = ControllerMetrics(CONTROLLER).registry
    found = {
        each: registry.get_sample_value(
            "dradriver_classic_failures_total", {"driver": CONTROLLER, "operation": each}
        )
        for each in (*get_args(Failure), "allocations")
    }
    assert set(found.values()) == {0.0}
