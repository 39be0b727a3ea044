"""After any failure while a pod waits, the embedded scheduler and the drivers leave nothing attached.

The same table runs under kube-scheduler in `tests/e2e`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Client
from tests.conformance.scheduler.binding_failures import CASES, Setter, play

pytestmark = pytest.mark.timeout(300)

SECONDS = 80.0
BINDING_TIMEOUT = timedelta(seconds=12)
"""Six times the CPU time of twelve parallel drivers. A pod whose devices are ready too late is tried again."""


class Embedded:
    """The embedded API server and the controllers, which can be restarted."""

    def __init__(self, kubeconfig: str, client: Client) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self._stack = AsyncExitStack()
        self._restarting = asyncio.Lock()

    async def restart_scheduler(self) -> None:
        async with self._restarting:
            await self._stack.aclose()
            client = await self._stack.enter_async_context(await Client.connect(self.kubeconfig))
            settings = SchedulerSettings(binding_timeout=BINDING_TIMEOUT, pod_backoff=(0.05, 0.2))
            await self._stack.enter_async_context(Controllers(client, settings))

    async def stop(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Embedded]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    async with await Client.connect(str(kubeconfig)) as client:
        made = Embedded(str(kubeconfig), client)
        await made.restart_scheduler()
        yield made
        await made.stop()
    await server.stop()


@pytest.mark.parametrize("setter", Setter)
async def test_in_the_end_nothing_is_attached_and_no_claim_is_terminating(
    site: Embedded, setter: Setter, tmp_path: Path
) -> None:
    cases = [case for case in CASES if case.setter is setter]
    assert await play(site, cases, tmp_path, SECONDS) == {}
