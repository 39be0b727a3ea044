"""Series that exist with 0 before their first event, so that rates and alerts include the event."""

import re
from pathlib import Path

from dradriver.node.reporting.metrics import NodeMetrics

OBSERVE = (Path(__file__).parents[4] / "docs" / "observe.md").read_text()


def label_values(metrics: NodeMetrics, series: str, label: str) -> set[str]:
    """Return the values of a label of a series, all of which must be 0."""
    samples = [each for family in metrics.registry.collect() for each in family.samples if each.name == series]
    assert not any(each.value for each in samples)
    return {each.labels[label] for each in samples}


def documented(series: str) -> set[str]:
    """Return the words in backticks after the colon in the documentation's row of a series."""
    (row,) = re.findall(rf"^\| `{series}` .*$", OBSERVE, re.MULTILINE)
    return set(re.findall(r"`([a-z_ ]+)`(?=[ ,(])", row.rpartition("by ")[2].partition(":")[2]))


def test_each_source_of_a_node_driver_begins_with_zero() -> None:
    metrics = NodeMetrics("led.example.com")
    metrics.show_stuck(dict)
    sources = label_values(metrics, "dradriver_node_background_errors_total", "source")
    assert sources == documented("dradriver_node_background_errors_total")


def test_each_reason_of_a_failed_claim_begins_with_zero() -> None:
    metrics = NodeMetrics("led.example.com")
    reasons = label_values(metrics, "dradriver_node_request_errors_total", "reason")
    assert reasons == documented("dradriver_node_request_errors_total")


def test_a_driver_without_a_kubelet_is_not_reported_as_unregistered() -> None:
    metrics = NodeMetrics("pool.example.com", kubelet=False)
    assert label_values(metrics, "dradriver_node_registered", "driver") == set()
    assert label_values(metrics, "dradriver_node_background_errors_total", "source") == {
        *("discover", "discover_slow", "fallback", "pool status")
    }
