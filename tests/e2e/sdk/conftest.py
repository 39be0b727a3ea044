"""A site for each test, on the cluster that all tests share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.sdk.arrangement import site_on
from tests.e2e.sdk.site import Site


@pytest.fixture
async def site(real_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Site]:
    """A namespace, a DeviceClass and a driver's account; everything goes at the end."""
    async with site_on(real_cluster, tmp_path) as site:
        yield site
