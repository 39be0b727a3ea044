"""KEP-5007's first user story: the pod of a claim with a bitstream is bound when the card has it."""

import pytest

from dradriver_fpga.card import ManagerState
from tests.drivers.fpga.nodes import (
    INTERFACES,
    REGION_0,
    REGION_1,
    BriefDriver,
    Node,
    kind,
    pod,
    wait_for_reason,
)
from tests.unit.conditions.fabric import Lab

REGION = "pci-0000-3b-00-0-region-0"
OTHER = "pci-0000-3b-00-0-region-1"
ERRORS = [state for state in ManagerState if state.is_error]


async def test_the_pod_waits_until_the_region_holds_its_bitstream(lab: Lab, node: Node) -> None:
    image = node.images.fitting("pac")
    node.controls.hang_next(REGION_0)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(image))
        await lab.waits("pod-1")
        await node.wait_for_call("program")
        assert not lab.seen.pods.items["default/pod-1"].spec.node_name
        node.controls.release(REGION_0)
        assert await lab.bound("pod-1")
    held = {region.id: region.bitstream for region in node.controls.cards()[0].regions}
    assert image.sha256 in held.values()


async def test_a_region_that_holds_it_is_ready_at_once(lab: Lab, node: Node) -> None:
    image = node.images.fitting("pac")
    node.controls.program(REGION_1, image, timeout=10)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(image), kind("region", bitstream=image.sha256))
        assert await lab.bound("pod-1") == OTHER
    assert not node.programmed


async def test_a_slot_that_holds_it_is_preferred_and_needs_no_waiting(lab: Lab, node: Node) -> None:
    """Devices without binding conditions come first."""
    image = node.images.fitting("pac")
    node.controls.program(REGION_1, image, timeout=10)
    async with lab.scheduler(), node.running(lab):
        await pod(
            lab,
            "pod-1",
            node.reference(image),
            [f"device.attributes['fpga.example.com'].bitstream == '{image.sha256}'"],
        )
        assert await lab.bound("pod-1") == "pci-0000-3b-00-0-slot-1-0"
        assert not lab.claim("pod-1").results[0].binding_conditions
    assert not node.programmed


async def test_a_process_that_dies_while_it_programs_leaves_it_to_the_next_one(lab: Lab, node: Node) -> None:
    image = node.images.fitting("pac")
    node.controls.hang_next(REGION_0)
    async with lab.scheduler():
        async with node.running(lab):
            await pod(lab, "pod-1", node.reference(image))
            await node.wait_for_call("program")
        assert node.controls.cards()[0].regions[0].bitstream == ""
        async with node.running(lab):
            node.controls.release(REGION_0)
            assert await lab.bound("pod-1") == REGION
    assert node.controls.cards()[0].regions[0].bitstream == image.sha256


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("WrongDigest", {"sha256": "0" * 64}),
        ("NotFound", {"file": "nowhere.gbs"}),
        ("Incompatible", {"interfaceID": INTERFACES[1]}),
        ("Refused", {"file": None, "url": "https://images.example.com/a.gbs"}),
    ],
)
async def test_a_faulty_claim_gets_a_condition_and_taints_no_device(
    lab: Lab, node: Node, reason: str, change: dict[str, str]
) -> None:
    image = node.images.fitting("pac")
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(image) | change)
        await wait_for_reason(lab, "pod-1", reason)
        assert not node.programmed
        assert not lab.tainted()
        await lab.delete_pod("pod-1")
        await pod(lab, "pod-2", node.reference(image))
        await lab.bound("pod-2")


async def test_a_file_that_is_too_large_is_refused(lab: Lab, node: Node) -> None:
    node.settings["bitstreams"] = {"largestBytes": 1000, "allowUnsigned": True}
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(node.images.fitting("pac", size=2000)))
        assert "larger than 1000 bytes" in (await wait_for_reason(lab, "pod-1", "TooLarge")).message
    assert not node.programmed


async def test_a_file_that_is_no_bitstream_is_refused(lab: Lab, node: Node) -> None:
    broken = node.images.file(b"XeonFPGA\xb7GBSv001" + b"\xff" * 4)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(broken))
        await wait_for_reason(lab, "pod-1", "Unreadable")
    assert not node.programmed


@pytest.mark.parametrize("state", ERRORS, ids=lambda state: state.value.replace(" ", "-"))
async def test_a_card_that_fails_is_not_picked_again_at_once_and_is_usable_afterwards(
    lab: Lab, node: Node, state: ManagerState
) -> None:
    image = node.images.fitting("pac")
    node.controls.fail_next(REGION_0, state)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(image))
        assert await lab.bound("pod-1") == OTHER
        assert lab.tainted() >= {REGION}
        assert OTHER not in lab.tainted()
    node.controls.program(REGION_0, image, timeout=10)
    assert node.controls.cards()[0].regions[0].bitstream == image.sha256


async def test_a_device_that_failed_is_allocated_again_after_its_quarantine(lab: Lab, node: Node) -> None:
    image = node.images.fitting("pac")
    node.driver_class = BriefDriver
    node.controls.fail_next(REGION_1, ManagerState.WRITE_ERROR)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-0")
        assert await lab.bound("pod-0") == REGION
        await pod(lab, "pod-1", node.reference(image))
        await wait_for_reason(lab, "pod-1", "WriteError")
        assert await lab.bound("pod-1") == OTHER
    assert node.controls.cards()[0].regions[1].bitstream == image.sha256


async def test_the_failure_contains_the_state_of_the_manager(lab: Lab, node: Node) -> None:
    image = node.images.fitting("pac")
    node.controls.fail_next(REGION_1, ManagerState.WRITE_INIT_ERROR)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-0")
        assert await lab.bound("pod-0") == REGION
        await pod(lab, "pod-1", node.reference(image))
        condition = await wait_for_reason(lab, "pod-1", "WriteInitError")
        assert condition.type == "fpga.example.com/program-failed"
        assert "write init error" in condition.message


async def test_a_device_whose_pod_was_deleted_is_programmed_for_the_next_one(lab: Lab, node: Node) -> None:
    first, second = node.images.fitting("pac"), node.images.fitting("pac", "ab" * 16)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(first))
        device = await lab.bound("pod-1")
        await lab.delete_pod("pod-1")
        await pod(lab, "pod-2", node.reference(second))
        assert await lab.bound("pod-2") == device
        assert lab.claim("pod-2").allocation is not None
    assert node.controls.cards()[0].regions[0].afu_id == "ab" * 16


async def test_claims_without_a_bitstream_use_the_present_content(lab: Lab, node: Node) -> None:
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1")
        assert await lab.bound("pod-1") == REGION
    assert not node.programmed
