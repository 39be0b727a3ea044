"""Helm, which is built from its Go module: tests that use it are of the tier `e2e`."""

import pytest

from tests.e2e import programs
from tests.e2e.helm import Helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm without a cluster."""
    if reason := programs.missing("helm"):
        pytest.skip(reason)
    return Helm(namespace="devices")
