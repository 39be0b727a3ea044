"""A site for each test, on the shared cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.bed.cluster import Cluster
from tests.e2e.node.site import Site
from tests.e2e.node.site_setup import create_site


@pytest.fixture
async def site(real_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Site]:
    """Create a namespace, a DeviceClass and a driver's account; remove them at the end."""
    async with create_site(real_cluster, tmp_path) as site:
        yield site
