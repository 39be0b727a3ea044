"""Both drivers of a fabric on an API server that drops binding conditions: the pod is bound at once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Client
from dradriver_fabric_cxl.fabric.simulator import FabricCall
from tests.drivers.fabric_cxl.both_halves.halves import MEMORY, Halves
from tests.unit.conditions.fabric import restarted


@pytest.fixture
async def halves(tmp_path: Path) -> AsyncIterator[Halves]:
    async with (
        restarted(tmp_path, DRADeviceBindingConditions=False) as lab,
        await Client.connect(lab.kubeconfig) as client,
        Controllers(client, SchedulerSettings(features=lab.features, pod_backoff=(0.05, 0.2))),
    ):
        made = Halves(lab, tmp_path, "cxl", 80, prepare_deadline=1)
        try:
            await made.start_nodes()
            await made.start_pools()
            yield made
        finally:
            await made.close()


async def test_prepare_waits_for_the_fabric_and_gives_the_memory(halves: Halves) -> None:
    halves.hold(FabricCall.CREATE_CONNECTION)
    await halves.create_pod(MEMORY)
    node = await halves.bound()
    assert not halves.claim().results[0].binding_conditions
    await halves.until(halves.is_held)
    assert "in progress" in await halves.prepare()
    halves.release()

    async def is_prepared() -> bool:
        error = await halves.prepare()
        assert not error or "in progress" in error
        return not error

    await halves.until(is_prepared)
    assert halves.connected() == [halves.hosts()[node]]
    device = halves.claim().results[0].device
    nodes = [each["path"] for one in halves.edits(node) for each in one.get("deviceNodes", ())]
    assert nodes == [f"/dev/cxl/{device}"]
    await halves.unprepare(halves.claim(), node)
    await halves.delete_pod()
    await halves.delete_claim()
    await halves.until(halves.is_empty)


async def test_prepare_reports_why_the_fabric_failed_and_nothing_stays_attached(halves: Halves) -> None:
    halves.fail_port()
    await halves.create_pod(MEMORY)
    node = await halves.bound()
    error = "in progress"

    async def is_refused() -> bool:
        nonlocal error
        error = await halves.prepare()
        assert error
        return "in progress" not in error

    await halves.until(is_refused)
    assert "the task failed" in error
    await halves.unprepare(halves.claim(), node)
    await halves.delete_pod()
    await halves.delete_claim()
    await halves.until(halves.is_empty)
