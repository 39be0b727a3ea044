"""Several claims on one slot of an XRT card: all use the same xclbin, and nothing is programmed under them."""

from pathlib import Path
from typing import Any

import pytest

import dradriver as dra
from dradriver.allocator import Refusal
from dradriver.testing import Harness, device_request
from dradriver_fpga.configs import FpgaConfig, RequestedBitstream
from dradriver_fpga.node import CardInventory
from dradriver_fpga.offer import DRIVER
from dradriver_fpga.settings import read_settings
from tests.drivers.fpga.nodes import Node, kind, pod
from tests.unit.conditions.fabric import Lab

ALVEO = "0000:af:00.1"
SLOT = "pci-0000-af-00-1-slot-0-0"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(folder, ("alveo",), settings={"sharing": {"claimsPerSlot": 2}})


def slots(node: Node) -> list[dra.Device]:
    inventory = CardInventory(read_settings(node.text()))
    inventory.update(node.controls.cards())
    return [device for device in inventory.build_pool().devices if device.shareable]


async def refused(lab: Lab, name: str) -> None:
    """Waits until the scheduler has found no device for the pod."""

    def is_refused(pods: Any, _: object) -> bool:
        found = pods.get(f"default/{name}")
        return found is not None and any(
            each.type == "PodScheduled" and each.status == "False" for each in found.status.conditions
        )

    await lab.until(is_refused)


async def test_as_many_claims_as_the_settings_say_use_the_slot(lab: Lab, node: Node) -> None:
    image = node.images.fitting("alveo")
    node.controls.program(f"{ALVEO}/0", image, timeout=10)
    async with lab.scheduler(), node.running(lab):
        for name in ("pod-1", "pod-2"):
            await pod(lab, name, node.reference(image), kind("slot", bitstream=image.sha256))
            assert await lab.bound(name) == SLOT
        await pod(lab, "pod-3", node.reference(image), kind("slot", bitstream=image.sha256))
        await pod(lab, "pod-4", node.reference(node.images.fitting("alveo", "ab" * 16)), kind("region"))
        for name in ("pod-3", "pod-4"):
            await refused(lab, name)
        assert node.calls.count("programmed") == 0
        await lab.delete_pod("pod-1")
        assert await lab.bound("pod-3") == SLOT
        for name in ("pod-2", "pod-3"):
            await lab.delete_pod(name)
        assert await lab.bound("pod-4") == "pci-0000-af-00-1-region-0"
    assert node.calls.count("programmed") == 1


def test_two_claims_are_prepared_and_no_region_is_under_them(node: Node) -> None:
    """The node checks this even if the scheduler allocates incorrectly."""
    image = node.images.fitting("alveo")
    node.controls.program(f"{ALVEO}/0", image, timeout=10)
    with Harness(node.driver) as harness:
        for _ in range(2):
            prepared = harness.prepare(harness.allocate(device_request(DRIVER, *kind("slot"))))
            assert [each.path for each in prepared.edits.device_nodes] == ["/dev/dri/renderD128"]
        with pytest.raises(Refusal):
            harness.allocate(device_request(DRIVER, *kind("slot")))
        (pool,) = {each.spec.pool.name for each in harness.slices()}
        region = harness.allocate_blindly((pool, "pci-0000-af-00-1-region-0"))
        with pytest.raises(dra.DraError, match="region-0-slot-0"):
            harness.prepare(region)
    assert node.programmed == 0


def test_no_claim_programs_a_shared_slot(node: Node) -> None:
    node.controls.program(f"{ALVEO}/0", node.images.fitting("alveo"), timeout=10)
    image = node.images.fitting("alveo", "ab" * 16)
    other = FpgaConfig(bitstream=RequestedBitstream(file=image.path.name, sha256=image.sha256))
    with Harness(node.driver) as harness:
        allocated = harness.allocate(device_request(DRIVER, *kind("slot")), config=other)
        with pytest.raises(Exception, match=f"device {SLOT} does not have .*, and its region is shared"):
            harness.prepare(allocated)
    assert not node.programmed


def test_a_slot_is_shared_only_if_the_operator_says_so(node: Node) -> None:
    node.controls.program(f"{ALVEO}/0", node.images.fitting("alveo"), timeout=10)
    (slot,) = slots(node)
    assert slot.name == SLOT
    assert int(slot.capacity["claims"].value) == 2
    del node.settings["sharing"]
    assert slots(node) == []


def test_ports_of_dfl_are_not_shared(tmp_path: Path) -> None:
    """Their driver does not keep processes apart."""
    folder = tmp_path / "pac"
    folder.mkdir()
    assert slots(Node(folder, ("pac",), settings={"sharing": {"claimsPerSlot": 2}})) == []


def test_without_sharing_in_the_server_one_claim_gets_the_slot(node: Node) -> None:
    node.controls.program(f"{ALVEO}/0", node.images.fitting("alveo"), timeout=10)
    inventory = CardInventory(read_settings(node.text()))
    inventory.update(node.controls.cards())
    devices = {each.name: each for each in inventory.select_safe_without({"allowMultipleAllocations"}).devices}
    assert not devices[SLOT].shareable
    assert not devices[SLOT].capacity


def test_a_number_below_one_is_rejected() -> None:
    with pytest.raises(dra.UsageError, match="claimsPerSlot"):
        read_settings("sharing: {claimsPerSlot: 0}")
