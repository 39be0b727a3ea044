"""The benchmark of the extender counts failed binds by the metric of the extender."""

from prometheus_client import generate_latest

from benchmarks.extender.throughput import count_failed_binds
from dradriver.extender.serving.metrics import ExtenderMetrics


def test_each_bind_that_was_not_answered_with_success_counts() -> None:
    metrics = ExtenderMetrics()
    for verb, outcome in (
        ("bind", "ok"), ("bind", "error"), ("bind", "error"), ("bind", "canceled"), ("bind", "defect"),
        ("filter", "error"),
    ):  # fmt: skip
        metrics.record_request(verb, outcome, 0.1)
    assert count_failed_binds(generate_latest(metrics.registry).decode()) == 4


def test_an_extender_without_binds_has_no_failed_binds() -> None:
    assert count_failed_binds(generate_latest(ExtenderMetrics().registry).decode()) == 0
