"""Two processes of `dradriver scheduler run`, while the API server is away, cut off, or answers with errors.

The API server is away for a minute, which is many lease durations. Both processes lose the Lease and end. The
next processes begin while it is away, wait, and schedule when it is back. `make faults` runs this test, because
it waits for a minute.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from dradriver.cluster.apiserver import Fault
from tests.faults.extender_processes import LEASE_SECONDS, Stage, open_stage
from tests.faults.network import Network

AWAY_SECONDS: Final = 60.0
STORM_SECONDS: Final = 2.0
CUTS: Final = 5
STORMS: Final = (
    [Fault("patch", code=409, count=-1), Fault("create", code=409, count=-1)],
    [Fault("watch", code=410, count=-1)],
    [Fault(code=429, count=-1, retry_after=1)],
    [Fault(code=500, count=-1)],
)


async def run_kubelet(stage: Stage) -> None:
    """Start each process again that has ended."""
    while True:
        await stage.restart_ended()
        await asyncio.sleep(0.5)


class Site:
    """The processes behind a network."""

    def __init__(self, stage: Stage, network: Network) -> None:
        self.stage, self.network = stage, network

    async def check(self) -> None:
        """Check that a process schedules all pods for which there are devices, and end the pods."""
        await self.stage.find_leader()
        pods = self.stage.caches.pods.items
        await self.stage.until(
            lambda: sum(bool(pod.spec.node_name) for pod in pods.values()) == min(4, len(pods))
        )
        await self.stage.check_claims()
        await self.stage.end_pods(1000)
        await self.stage.until_nothing_is_left()
        assert not self.stage.twice


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(open_stage(tmp_path))
        target = urlsplit(stage.server.url).port
        assert target is not None
        network = await stack.enter_async_context(Network(target))
        document = json.loads(stage.kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{network.port}"
        stage.kubeconfig = tmp_path / "kubeconfig-of-the-extender"
        stage.kubeconfig.write_text(json.dumps(document))
        await stack.enter_async_context(stage.run())
        kubelet = asyncio.create_task(run_kubelet(stage))
        await stage.find_leader()
        yield Site(stage, network)
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)


@pytest.mark.skipif("KILLS" not in os.environ, reason="make faults runs it")
@pytest.mark.timeout(300)
async def test_the_extender_continues_when_the_api_server_is_back(site: Site) -> None:
    # No answer, and no end of the connections.
    await site.stage.make_pods()
    before = site.stage.restarts
    await site.network.hang(AWAY_SECONDS)
    assert site.stage.restarts == before + 1, "the leader ends, and nothing else"
    await site.check()

    # The connections are refused.
    await site.stage.make_pods()
    await site.network.refuse()
    await asyncio.sleep(LEASE_SECONDS)
    await site.network.accept()
    await site.check()


@pytest.mark.skipif("KILLS" not in os.environ, reason="make faults runs it")
@pytest.mark.timeout(300)
async def test_the_extender_schedules_after_cut_connections_and_storms_of_errors(site: Site) -> None:
    # Each connection, and so each watch, is cut every second.
    await site.stage.make_pods()
    before = site.stage.restarts
    for _ in range(CUTS):
        site.network.cut()
        await asyncio.sleep(1.0)
    assert site.stage.restarts == before
    await site.check()

    for faults in STORMS:
        await site.stage.make_pods()
        for fault in faults:
            site.stage.server.faults.add(fault)
        await asyncio.sleep(STORM_SECONDS)
        site.stage.server.faults.clear()
        assert not site.stage.twice
    await site.check()
