"""Verdicts, compared with k8s.io/dynamic-resource-allocation v0.37.0 (tests/interop/cel/record_cases.py)."""

from typing import Any

import pytest

from tests.conformance.cel.cases import load, selector_device, verdict

WRITTEN = load("written.json")
DEVICE = selector_device(WRITTEN["device"])
RANDOM = load("random.json")
DIFFERENCES = load("differences.json")


@pytest.mark.parametrize("case", WRITTEN["cases"], ids=lambda case: case["expression"][:80])
def test_a_written_selector_has_the_verdict_of_kubernetes(case: dict[str, Any]) -> None:
    found, cost = verdict(case["expression"], DEVICE)
    assert found == case["verdict"]
    if cost is not None and "cost" in case:
        assert cost == case["cost"]


def test_random_selectors_have_the_verdicts_and_costs_of_kubernetes() -> None:
    for case in RANDOM["cases"]:
        found, cost = verdict(case["expression"], selector_device(case["device"]))
        assert (case["expression"], found) == (case["expression"], case["verdict"])
        if cost is not None and "cost" in case:
            assert (case["expression"], cost) == (case["expression"], case["cost"])


@pytest.mark.parametrize("case", DIFFERENCES["cases"], ids=lambda case: case["expression"][:80])
def test_a_listed_difference_still_exists(case: dict[str, Any]) -> None:
    """A difference that disappears must leave the list."""
    assert verdict(case["expression"], DEVICE)[0] == case["ours"] != case["kubernetes"]
