"""Both drivers of a fabric, from the waiting pod to the container, in the embedded cluster.

The same cases run under kube-scheduler in `tests/e2e/drivers`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Client
from tests.drivers.fabric_cxl.both_halves.cases import CASES, Case, time_out
from tests.drivers.fabric_cxl.both_halves.controller_cases import CONTROLLER_CASES
from tests.drivers.fabric_cxl.both_halves.halves import Halves
from tests.unit.conditions.fabric import restarted

SECONDS = 80.0
PATIENT = SchedulerSettings(pod_backoff=(0.05, 0.2))
IMPATIENT = replace(PATIENT, binding_timeout=timedelta(seconds=10))
"""Waits longer than the CPU time of both drivers, and than the test needs to cordon the first node.

A pod whose devices are ready too late is tried again.
"""


@asynccontextmanager
async def cluster(folder: Path, settings: SchedulerSettings) -> AsyncIterator[Halves]:
    async with (
        restarted(folder) as lab,
        await Client.connect(lab.kubeconfig) as client,
        Controllers(client, settings),
    ):
        halves = Halves(lab, folder, "cxl", SECONDS)
        try:
            await halves.start_nodes()
            yield halves
        finally:
            await halves.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_both_halves_attach_what_claims_need_and_nothing_else(tmp_path: Path, case: Case) -> None:
    async with cluster(tmp_path, PATIENT) as halves:
        await case(halves)


@pytest.mark.parametrize("case", CONTROLLER_CASES.values(), ids=CONTROLLER_CASES)
async def test_the_controller_attaches_what_claims_need_and_nothing_else(tmp_path: Path, case: Case) -> None:
    async with cluster(tmp_path, PATIENT) as halves:
        await case(halves)


@pytest.mark.timeout(180)
async def test_a_pod_that_waited_too_long_gets_memory_on_another_host(tmp_path: Path) -> None:
    async with cluster(tmp_path, IMPATIENT) as halves:
        await time_out(halves)
