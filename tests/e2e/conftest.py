"""Fixtures for both API servers; the machine is checked for leftovers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.apiserver.suite import Api
from tests.e2e.bed import api_server_clients
from tests.e2e.bed.bed import Bed


@pytest.fixture(scope="session", autouse=True)
def check_machine(machine_as_found: None) -> None:
    """Check the machine also for beds that a test starts itself."""


@pytest.fixture
async def real(real_control_plane: Bed) -> AsyncIterator[Api]:
    """Return the admin's client of kube-apiserver."""
    async with api_server_clients.real(real_control_plane) as api:
        yield api


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Api]:
    """Return the admin's client of the embedded API server."""
    async with api_server_clients.embedded(tmp_path / "data") as api:
        yield api
