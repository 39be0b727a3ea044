"""Helm, which is built from its Go module: tests that use it belong to the tier `e2e`."""

import pytest

from tests.e2e.bed import programs
from tests.e2e.chart.helm import Helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Return helm without a cluster."""
    if reason := programs.missing("helm"):
        pytest.skip(reason)
    return Helm(namespace="devices")
