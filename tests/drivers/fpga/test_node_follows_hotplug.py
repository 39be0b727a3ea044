"""Hotplug: an added card is published; a removed one is tainted, then unpublished, then published again."""

from types import SimpleNamespace

import pytest

import dradriver as dra
from dradriver_fpga.card import FaultKind
from dradriver_fpga.node import CardInventory
from dradriver_fpga.settings import FpgaSettings
from tests.drivers.fpga.nodes import PAC, REGION_0, Node, pod, wait_for_reason
from tests.unit.conditions.fabric import Lab

CARD = "pci-0000-3b-00-0"
ALVEO = "pci-0000-af-00-1"


async def test_a_card_that_is_plugged_in_is_published_and_one_that_is_pulled_is_tainted_then_gone(
    lab: Lab, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pulled card stays for some time after it is missed. This time passes when the test has seen the taint.
    now = [0.0]
    monkeypatch.setattr("dradriver_fpga.node.time", SimpleNamespace(monotonic=lambda: now[0]))
    node.settings["removedSeconds"] = 0.2
    async with node.running(lab):
        await lab.until(lambda *_: CARD in lab.devices())
        alveo = node.controls.plug("alveo")
        await lab.until(lambda *_: ALVEO in lab.devices())
        before = set(lab.devices())
        node.controls.unplug(alveo)
        await lab.until(lambda *_: ALVEO in lab.tainted())
        (taint,) = lab.devices()[ALVEO].taints
        assert (taint.key, taint.effect) == ("fpga.example.com/removed", "NoExecute")
        assert CARD not in lab.tainted()
        now[0] += 0.2
        await lab.until(lambda *_: ALVEO not in lab.devices())
        node.controls.replug(alveo)
        await lab.until(lambda *_: set(lab.devices()) == before and not lab.tainted())


async def test_a_pod_that_waits_for_a_removed_card_gets_a_condition(lab: Lab, node: Node) -> None:
    node.controls.hang_next(REGION_0)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(node.images.fitting("pac")))
        await lab.waits("pod-1")
        await node.wait_for_call("program")
        node.controls.unplug(PAC)
        assert (await wait_for_reason(lab, "pod-1", "CardGone")).type == "fpga.example.com/program-failed"
        node.controls.replug(PAC)


def test_a_card_that_is_back_in_time_was_never_gone(node: Node) -> None:
    there = node.controls.cards()
    inventory = CardInventory(FpgaSettings(removed_seconds=30))
    inventory.update(there, now=0)
    healthy = inventory.build_pool()
    inventory.update((), now=1)
    assert all(device.taints for device in inventory.build_pool().devices)
    assert {report.health for report in inventory.report_health()} == {dra.Health.UNHEALTHY}
    assert inventory.next_expiry(now=11) == 20
    inventory.update(there, now=12)
    assert inventory.build_pool() == healthy
    inventory.update((), now=20)
    inventory.update((), now=50)
    assert inventory.build_pool().devices == ()
    assert inventory.next_expiry(now=50) is None


def test_logic_that_does_not_answer_keeps_its_slot_from_pods_until_it_is_programmed(node: Node) -> None:
    node.controls.silence_logic(REGION_0)
    inventory = CardInventory(FpgaSettings())
    inventory.update(node.controls.cards())
    assert {device.name for device in inventory.build_pool().devices if device.taints} == {f"{CARD}-slot-0-0"}
    wrong = {report.device for report in inventory.report_health() if report.health is dra.Health.UNHEALTHY}
    assert wrong == {f"{CARD}-slot-0-0", f"{CARD}-region-0", CARD}


async def test_a_fault_that_no_uevent_reports_is_found_by_the_next_read(lab: Lab, node: Node) -> None:
    """Cards do not tell the kernel that a register has changed."""
    node.settings["rescanSeconds"] = 0.1
    async with node.running(lab):
        await lab.until(lambda *_: CARD in lab.devices())
        node.controls.report_fault(PAC, FaultKind.FATAL_ERROR)
        await lab.until(lambda *_: lab.tainted() == set(lab.devices()))
        taints = {str(taint) for device in lab.devices().values() for taint in device.taints}
        assert taints == {"fpga.example.com/fault=fatal-error:NoSchedule"}
        node.controls.clear_faults(PAC)
        await lab.until(lambda *_: not lab.tainted())
