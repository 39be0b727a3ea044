"""The gate `DRAResourceClaimDeviceStatus` is disabled while a pod waits: the API server drops `status.devices`.

KEP-5007, rollback: "No existing claims or running pods will be affected."
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from dradriver.kube import object_tasks
from tests.unit.conditions.fabric import FabricDriver, Hardware, Lab, laboratory, restarted
from tests.unit.conditions.node_driver import beside_a_kubelet
from tests.unit.control.events import wait_for_event

Process: TypeAlias = Callable[[Lab, Hardware, Path], AbstractAsyncContextManager[object]]

PROCESSES: dict[str, Process] = {
    "of the cluster": lambda lab, hardware, _: lab.driver(FabricDriver(hardware)),
    "of a node": beside_a_kubelet,
}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the waits before each retry of a claim; the fourth one lasts until the claim changes."""
    waits: list[float] = []

    async def pause(changed: asyncio.Event, seconds: float) -> None:
        assert not changed.is_set(), "a dropped write must not count as a change"
        waits.append(seconds)
        if len(waits) > 3:
            await changed.wait()

    monkeypatch.setattr(object_tasks, "pause", pause)
    return waits


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())
async def test_attach_waits_until_conditions_are_stored_and_an_event_reports_it(
    tmp_path: Path, hardware: Hardware, pauses: list[float], process: Process
) -> None:
    (tmp_path / "registry").mkdir()
    async with laboratory(tmp_path) as lab, lab.scheduler():
        async with process(lab, hardware, tmp_path):
            await lab.until(lambda *_: bool(lab.devices()))
        await lab.pod()
        await lab.waits()
    off = {"DRAResourceClaimDeviceStatus": False}
    async with restarted(tmp_path, **off) as lab, process(lab, hardware, tmp_path):
        async with asyncio.timeout(20):
            while len(pauses) < 4:
                assert not hardware.log
                await asyncio.sleep(0.01)
            event = await wait_for_event(lab.client, "DRAResourceClaimDeviceStatus")
        assert (event.reason, event.type) == ("ConditionsDropped", "Warning")
        assert event.involved_object.name == "pod-1"
        assert "does not store the conditions" in event.message
        assert pauses[0] < pauses[-1]
        assert not lab.claim().status.devices
    async with restarted(tmp_path) as lab, lab.scheduler(), process(lab, hardware, tmp_path):
        device = await lab.bound()
        assert hardware.log == [("attach", device)]
