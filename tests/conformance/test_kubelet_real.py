"""The real kubelet passes the kubelet suite; its waits of 30 and 45 seconds are the real ones."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.conformance import kubelet_real
from tests.conformance.kubelet_lab import Lab
from tests.conformance.kubelet_real import Runs
from tests.conformance.kubelet_suite import KubeletSuite
from tests.e2e import host
from tests.e2e.cluster import Cluster, start_cluster

pytestmark = pytest.mark.e2e


class RealKubelet(KubeletSuite):
    """The logs of containers come from the kubelet by way of the API server."""

    async def logs(self, lab: Lab, pod: str, container: str) -> str:
        return await lab.client.logs(pod, lab.namespace, container)


CASES = kubelet_real.cases(RealKubelet())


@pytest.fixture(scope="module")
def cluster(machine_as_found: None) -> Iterator[Cluster]:
    """A cluster whose claims are reserved and released by the tests, not by a controller."""
    if reason := host.missing():
        pytest.skip(reason)
    with start_cluster(without=["resourceclaim-controller"]) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Runs]:
    """All tests of this file that were asked for, several at once."""
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    wanted = {spec.params["case"] for spec in asked if spec is not None}
    async with kubelet_real.running(cluster, {name: CASES[name] for name in CASES if name in wanted}) as runs:
        yield runs


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES)
async def test_of_the_suite(case: str, runs: Runs) -> None:
    await runs.result(case)
