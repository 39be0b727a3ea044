"""Both drivers of a CXL fabric under kube-scheduler: from the waiting pod to the container.

The table is that of `tests/drivers/fabric_cxl/both_halves`.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from dradriver.allocator import Features
from dradriver.control.runtime.caches import Caches
from tests.drivers.fabric_cxl.both_halves.cases import CASES, Case, time_out
from tests.drivers.fabric_cxl.both_halves.controller_cases import CONTROLLER_CASES
from tests.drivers.fabric_cxl.both_halves.halves import Halves
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.scheduling.scheduled_cluster import connect
from tests.unit.conditions.fabric import Lab

pytestmark = pytest.mark.timeout(300)

_BINDING_TIMEOUT: Final = "10s"
_SECONDS: Final = 180.0
"""kube-scheduler looks at conditions every 5 s, and sets a pod back for up to 10 s."""
_NUMBERS: Final = itertools.count()


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_scheduler(made, [])
        control_plane.start_controller_manager(made, [])
        yield made


@pytest.fixture
async def halves(bed: ApiServerBed, tmp_path: Path) -> AsyncIterator[Halves]:
    async with connect(bed) as plane, Caches(plane.client) as seen:
        lab = Lab(bed.kubeconfig(), plane.client, seen, Features())
        made = Halves(lab, tmp_path, f"cxl-{next(_NUMBERS)}", _SECONDS)
        try:
            await made.start_nodes()
            yield made
        finally:
            await made.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_both_halves_attach_what_claims_need_and_nothing_else(halves: Halves, case: Case) -> None:
    await case(halves)


@pytest.fixture(scope="module")
def profile(bed: ApiServerBed) -> Iterator[str]:
    """Start a kube-scheduler with the extender, and return the name of its profile."""
    url = start_extender(bed, "--no-leader-elect", "--binding-timeout=60")
    start_kube_scheduler(bed, write_config(bed, url, "--binding-timeout=60"), "extended-scheduler")
    yield "dradriver"
    for name in ("extended-scheduler", "dradriver-scheduler"):
        bed.end(name)


@pytest.mark.parametrize("case", CONTROLLER_CASES.values(), ids=CONTROLLER_CASES)
async def test_the_controller_attaches_what_claims_need_and_nothing_else(
    halves: Halves, profile: str, case: Case
) -> None:
    halves.profile = profile
    await case(halves)


async def test_a_pod_that_waited_too_long_gets_memory_on_another_host(
    bed: ApiServerBed, halves: Halves
) -> None:
    await asyncio.to_thread(_restart_scheduler, bed, _BINDING_TIMEOUT)
    await time_out(halves)
    await asyncio.to_thread(_restart_scheduler, bed)


def _restart_scheduler(bed: ApiServerBed, binding_timeout: str = "") -> None:
    bed.end("kube-scheduler")
    control_plane.start_scheduler(bed, [], binding_timeout)
