"""AFUs of two shells: compatibility groups in the cluster, and the prepared state on the node."""

import asyncio
from itertools import permutations

import msgspec
import pytest

import dradriver as dra
from dradriver.testing import Harness
from dradriver_fpga.card.simulator import SimulatedFpgas
from tests.drivers.fpga.nodes import INTERFACES, PAC, Node, kind, pod
from tests.unit.conditions.fabric import Lab

A, B = INTERFACES


def of_shell(interface: str) -> list[str]:
    return kind("region", interfaceID=interface)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["A first", "B first"])
async def test_two_pods_never_share_a_card_and_the_second_gets_it_afterwards(
    grouping: Lab, node: Node, order: tuple[int, int]
) -> None:
    lab = grouping
    lab = grouping
    node.with_shells()
    images = {shell: node.images.fitting("pac", shell=shell) for shell in order}
    async with lab.scheduler(), node.running(lab):
        first, second = order
        await pod(lab, "pod-1", node.reference(images[first]), of_shell(INTERFACES[first]))
        await lab.bound("pod-1")
        assert {region.interface_id for region in node.controls.cards()[0].regions} == {INTERFACES[first]}
        await pod(lab, "pod-2", node.reference(images[second]), of_shell(INTERFACES[second]))
        await lab.until(
            lambda pods, _: (
                any(each.reason == "Unschedulable" for each in pods["default/pod-2"].status.conditions)
                if "default/pod-2" in pods
                else False
            )
        )
        assert {region.interface_id for region in node.controls.cards()[0].regions} == {INTERFACES[first]}
        await lab.delete_pod("pod-1")
        await lab.bound("pod-2")
        held = {region.interface_id: region.bitstream for region in node.controls.cards()[0].regions}
        assert set(held) == {INTERFACES[second]}
    assert images[second].sha256 in {region.bitstream for region in node.controls.cards()[0].regions}


async def test_pods_of_one_shell_share_the_card(grouping: Lab, node: Node) -> None:
    lab = grouping
    node.with_shells()
    image = node.images.fitting("pac", shell=1)
    async with lab.scheduler(), node.running(lab):
        for name in ("pod-1", "pod-2"):
            await pod(lab, name, node.reference(image), of_shell(B))
        assert {await lab.bound("pod-1"), await lab.bound("pod-2")} == {
            f"pci-0000-3b-00-0-region-{number}-{B[:12]}" for number in range(2)
        }


@pytest.mark.parametrize("order", list(permutations((A, B))), ids=["A first", "B first"])
def test_a_node_rejects_a_wrong_allocation(node: Node, order: tuple[str, str]) -> None:
    """A scheduler without compatibility groups: the second claim is refused, and the card stays as it is."""
    node.with_shells()
    with Harness(node.driver) as harness:
        names = [f"pci-0000-3b-00-0-region-{number}-{order[number][:12]}" for number in range(2)]
        first, second = (harness.allocate_blindly((harness.discover()[0].name, name)) for name in names)
        harness.prepare(first)
        with pytest.raises(dra.DraError, match="compatibility group"):
            harness.prepare(second)
    assert {region.interface_id for region in node.controls.cards()[0].regions} == {order[0]}


async def test_without_groups_in_the_cluster_a_card_has_the_shell_that_it_has(lab: Lab, node: Node) -> None:
    node.with_shells()
    async with node.running(lab):
        await lab.until(lambda *_: bool(lab.devices()))
        published = set(lab.devices())
    assert published == {
        "pci-0000-3b-00-0",
        *(f"pci-0000-3b-00-0-region-{number}-{A[:12]}" for number in range(2)),
        *(f"pci-0000-3b-00-0-slot-{number}-0" for number in range(2)),
    }


async def test_a_shell_that_an_earlier_process_still_writes_is_not_written_again(
    grouping: Lab, node: Node
) -> None:
    """The driver waits for the earlier process, and then reads which shell the card has."""
    node.with_shells()
    shell = node.images.shell("pac", 1)
    earlier = SimulatedFpgas(node.models, store=node.store, speed=1e-9)
    writing = asyncio.create_task(asyncio.to_thread(earlier.program, PAC, shell, timeout=20))
    while not node.controls.cards()[0].managers[0].state.is_busy:
        await asyncio.sleep(0)
    async with grouping.scheduler(), node.running(grouping):
        await pod(grouping, "pod-1", None, of_shell(B))
        await node.wait_for_call("program")
        with node.store.change() as state:
            load = state.cards[0].load
            assert load is not None
            state.cards[0].load = msgspec.structs.replace(load, seconds=0.0)
        assert (await grouping.bound("pod-1")).startswith("pci-0000-3b-00-0-region-0")
    await writing
    assert not node.programmed
