"""Hot-plug: a card that is plugged in is published; a pulled one is tainted, then gone, then back."""

import dradriver as dra
from dradriver_fpga.node import CardInventory
from dradriver_fpga.settings import Settings
from tests.drivers.fpga.nodes import PAC, REGION_0, Node, pod, told
from tests.unit.conditions.fabric import Lab

CARD = "pci-0000-3b-00-0"
ALVEO = "pci-0000-af-00-1"


async def test_a_card_that_is_plugged_in_is_published_and_one_that_is_pulled_is_tainted_then_gone(
    lab: Lab, node: Node
) -> None:
    node.settings["removedSeconds"] = 0.8
    async with node.running(lab):
        await lab.until(lambda *_: CARD in lab.devices())
        alveo = node.hand.plug("alveo")
        await lab.until(lambda *_: ALVEO in lab.devices())
        before = set(lab.devices())
        node.hand.unplug(alveo)
        await lab.until(lambda *_: ALVEO in lab.tainted())
        (taint,) = lab.devices()[ALVEO].taints
        assert (taint.key, taint.effect) == ("fpga.example.com/removed", "NoExecute")
        assert CARD not in lab.tainted()
        await lab.until(lambda *_: ALVEO not in lab.devices())
        node.hand.replug(alveo)
        await lab.until(lambda *_: set(lab.devices()) == before and not lab.tainted())


async def test_a_pod_that_waits_for_a_card_that_is_pulled_is_told(lab: Lab, node: Node) -> None:
    node.hand.hang_next(REGION_0)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(node.images.fitting("pac")))
        await lab.waits("pod-1")
        await node.asked("program")
        node.hand.unplug(PAC)
        assert (await told(lab, "pod-1", "CardGone")).type == "fpga.example.com/program-failed"
        node.hand.replug(PAC)


def test_a_card_that_is_back_in_time_was_never_gone(node: Node) -> None:
    there = node.hand.cards()
    inventory = CardInventory(Settings(removed_seconds=30))
    inventory.learn(there, now=0)
    healthy = inventory.pool()
    inventory.learn((), now=1)
    assert all(device.taints for device in inventory.pool().devices)
    assert {report.health for report in inventory.reports()} == {dra.Health.UNHEALTHY}
    assert inventory.due(now=11) == 20
    inventory.learn(there, now=12)
    assert inventory.pool() == healthy
    inventory.learn((), now=20)
    inventory.learn((), now=50)
    assert inventory.pool().devices == ()
    assert inventory.due(now=50) is None


def test_logic_that_does_not_answer_keeps_its_slot_from_pods_until_it_is_programmed(node: Node) -> None:
    node.hand.spoil(REGION_0)
    inventory = CardInventory(Settings())
    inventory.learn(node.hand.cards())
    assert {device.name for device in inventory.pool().devices if device.taints} == {f"{CARD}-slot-0-0"}
    wrong = {report.device for report in inventory.reports() if report.health is dra.Health.UNHEALTHY}
    assert wrong == {f"{CARD}-slot-0-0", f"{CARD}-region-0", CARD}
