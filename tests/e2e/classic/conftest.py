"""A site for each test, on the shared cluster, and a kube-scheduler with the extender.

All of them have the accounts, the roles and the policies of the chart.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.chart.chart_accounts import chart_accounts, write_account_kubeconfig
from tests.e2e.classic.classic_site import FPGA, NIC, ClassicSite, create_classic_site

NAMESPACE: Final = "default"
NAME: Final = "classic"
VALUES: Final = {
    "classic.enabled": True,
    "classic.kubeletPlugins": [FPGA, NIC],
    "scheduler.enabled": True,
    "scheduler.kubeScheduler.image.repository": "registry.example.com/kube-scheduler",
}


@pytest.fixture(scope="package")
def classic_cluster(real_cluster: Cluster) -> Iterator[Cluster]:
    """Install the definitions and the policies, and the account of a scheduler."""
    with chart_accounts(real_cluster.bed, NAMESPACE, NAME, VALUES):
        yield real_cluster


@pytest.fixture
async def site(classic_cluster: Cluster, tmp_path: Path) -> AsyncIterator[ClassicSite]:
    """Create a namespace with a class of a controller; remove them at the end."""
    async with create_classic_site(classic_cluster, tmp_path) as site:
        yield site


@pytest.fixture(scope="package")
def extended_profile(classic_cluster: Cluster) -> Iterator[str]:
    """Start a kube-scheduler with the extender, and return the name of its profile."""
    bed = classic_cluster.bed
    kubeconfig = write_account_kubeconfig(bed, NAMESPACE, f"{NAME}-scheduler")
    url = start_extender(bed, "--no-leader-elect", "--binding-timeout=60", kubeconfig=kubeconfig)
    start_kube_scheduler(bed, write_config(bed, url, "--binding-timeout=60"), "classic-scheduler")
    yield "dradriver"
    for name in ("classic-scheduler", "dradriver-scheduler"):
        bed.end(name)
