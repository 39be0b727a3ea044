"""A site for each test, on the shared cluster, and a kube-scheduler with the extender."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.classic.classic_site import ClassicSite, create_classic_site


@pytest.fixture
async def site(real_cluster: Cluster, tmp_path: Path) -> AsyncIterator[ClassicSite]:
    """Create a namespace with a class of a controller; remove them at the end."""
    async with create_classic_site(real_cluster, tmp_path) as site:
        yield site


@pytest.fixture(scope="package")
def extended_profile(real_cluster: Cluster) -> Iterator[str]:
    """Start a kube-scheduler with the extender, and return the name of its profile."""
    bed = real_cluster.bed
    url = start_extender(bed, "--no-leader-elect", "--binding-timeout=60")
    start_kube_scheduler(bed, write_config(bed, url, "--binding-timeout=60"), "classic-scheduler")
    yield "dradriver"
    for name in ("classic-scheduler", "dradriver-scheduler"):
        bed.end(name)
