"""The real kubelet passes the kubelet suite, with its waits of 30 and 45 seconds."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.conformance.kubelet import real as kubelet_real
from tests.conformance.kubelet.lab import Lab
from tests.conformance.kubelet.real import Runs
from tests.conformance.kubelet.suite import KubeletSuite
from tests.e2e import host
from tests.e2e.bed.cluster import Cluster, start_cluster

pytestmark = pytest.mark.e2e


class RealKubelet(KubeletSuite):
    """Read the logs of containers from the kubelet through the API server."""

    async def logs(self, lab: Lab, pod: str, container: str) -> str:
        return await lab.client.logs(pod, lab.namespace, container)


CASES = kubelet_real.cases(RealKubelet())


@pytest.fixture(scope="module")
def cluster(machine_as_found: None) -> Iterator[Cluster]:
    """Start a cluster whose claims the tests reserve and release, not a controller."""
    if reason := host.missing():
        pytest.skip(reason)
    with start_cluster(without=["resourceclaim-controller"]) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Runs]:
    """Run all selected tests of this file, several at once."""
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    wanted = {spec.params["case"] for spec in asked if spec is not None}
    async with kubelet_real.running(cluster, {name: CASES[name] for name in CASES if name in wanted}) as runs:
        yield runs


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES)
async def test_of_the_suite(case: str, runs: Runs) -> None:
    await runs.result(case)
