"""Both API servers side by side, on a machine that is left as it was found."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.apiserver_suite import Api
from tests.e2e import servers
from tests.e2e.bed import Bed


@pytest.fixture(scope="session", autouse=True)
def first_of_all(machine_as_found: None) -> None:
    """Beds that a test starts itself are looked after too."""


@pytest.fixture
async def real(real_control_plane: Bed) -> AsyncIterator[Api]:
    """The admin's client of kube-apiserver."""
    async with servers.real(real_control_plane) as api:
        yield api


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Api]:
    """The admin's client of the embedded API server."""
    async with servers.embedded(tmp_path / "data") as api:
        yield api
