"""Whatever fails while a pod waits, kube-scheduler and our drivers leave no attachment behind.

The table is that of `tests/unit/conditions/test_controller_leaves_nothing_attached.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from dradriver.kube import Client
from tests.conformance.scheduler.binding_failures import CASES, Setter, play
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.scheduling.scheduled_cluster import connect

pytestmark = pytest.mark.timeout(600)

_BINDING_TIMEOUT: Final = "10s"
_SECONDS: Final = 180.0
"""kube-scheduler looks at conditions every 5 s, and sets a pod back for up to 10 s."""


class RealSite:
    """kube-scheduler and kube-controller-manager on a bed."""

    def __init__(self, bed: ApiServerBed, client: Client) -> None:
        self.client = client
        self.kubeconfig = bed.kubeconfig()
        self._bed = bed
        self._restarting = asyncio.Lock()

    async def restart_scheduler(self) -> None:
        async with self._restarting:
            await asyncio.to_thread(self._restart)

    def _restart(self) -> None:
        self._bed.end("kube-scheduler")
        control_plane.start_scheduler(self._bed, [], _BINDING_TIMEOUT)


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_scheduler(made, [], _BINDING_TIMEOUT)
        control_plane.start_controller_manager(made, [])
        yield made


@pytest.fixture
async def site(bed: ApiServerBed) -> AsyncIterator[RealSite]:
    async with connect(bed) as plane:
        yield RealSite(bed, plane.client)


@pytest.mark.parametrize("setter", Setter)
async def test_in_the_end_every_attachment_is_detached_and_no_claim_is_terminating(
    site: RealSite, setter: Setter, tmp_path: Path
) -> None:
    cases = [case for case in CASES if case.setter is setter]
    assert await play(site, cases, tmp_path, _SECONDS) == {}
