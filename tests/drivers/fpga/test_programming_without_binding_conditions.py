"""A cluster that drops `bindingConditions` (A1) binds the pod at once, and `prepare` programs the card."""

import asyncio

from dradriver.testing import Harness, device_request
from dradriver_fpga import FpgaConfig
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.offer import DRIVER, select_safe_without
from dradriver_fpga.offer.offers import list_offers
from dradriver_fpga.offer.pool import build_pool as pool_of
from dradriver_fpga.settings import read_settings
from tests.drivers.fpga.nodes import REGION_0, Node, kind, pod
from tests.unit.conditions.fabric import Lab
from tests.unit.node.plugin_world import prepare


def wanting(node: Node) -> FpgaConfig:
    image = node.images.fitting("pac")
    return FpgaConfig(bitstream=RequestedBitstream(file=image.path.name, sha256=image.sha256))


async def test_programming_that_takes_longer_than_the_kubelet_waits_goes_on(impatient: Lab, node: Node) -> None:
    lab, image = impatient, node.images.fitting("pac")
    node.controls.hang_next(REGION_0)
    async with lab.scheduler(), node.running(lab, prepare_deadline=0.2) as plugin:
        await pod(lab, "pod-1", node.reference(image))
        assert await lab.bound("pod-1") == "pci-0000-3b-00-0-region-0"
        claim = lab.claim("pod-1")
        assert not claim.results[0].binding_conditions
        answer = (await prepare(plugin, claim))[claim.metadata.uid]
        assert "in progress" in answer.error
        node.controls.release(REGION_0)
        while (answer := (await prepare(plugin, claim))[claim.metadata.uid]).error:
            assert "in progress" in answer.error or "unknown" in answer.error
            await asyncio.sleep(0.05)
        assert node.controls.cards()[0].regions[0].bitstream == image.sha256


def test_a_container_gets_the_ports_of_the_programmed_region(node: Node) -> None:
    with Harness(node.driver) as harness:
        request = device_request(DRIVER, *kind("region"))
        make_prepared_device = harness.prepare(harness.allocate(request, config=wanting(node)))
        assert [each.path for each in make_prepared_device.edits.device_nodes] == ["/dev/dfl-port.0"]
        digest = node.controls.cards()[0].regions[0].bitstream
        assert make_prepared_device.edits.env == (f"FPGA_PCI_0000_3B_00_0_REGION_0={digest}",)
        assert digest


def test_the_requested_content_is_not_programmed_again(node: Node) -> None:
    node.controls.program(REGION_0, node.images.fitting("pac"), timeout=10)
    with Harness(node.driver) as harness:
        request = device_request(DRIVER, *kind("region"))
        harness.prepare(harness.allocate(request, config=wanting(node)))
    assert not node.programmed


def test_no_two_devices_overlap_without_the_dropped_fields(node: Node) -> None:
    node.with_shells()
    settings = read_settings(node.text())
    offered = [list_offers(card, settings.shells) for card in node.controls.cards()]
    whole = pool_of(offered, {})
    groups_only = select_safe_without(["compatibilityGroups"], whole, offered)
    assert len(groups_only.devices) < len(whole.devices)
    assert not any(each.compatibility_groups for one in groups_only.devices for each in one.consumes_counters)
    assert groups_only.counter_sets == whole.counter_sets
    alone = select_safe_without(["consumesCounters", "sharedCounters"], whole, offered)
    assert [device.name[-21:-13] for device in alone.devices] == ["region-0", "region-1"]
    assert not alone.counter_sets
    unconditional = select_safe_without(["bindingConditions"], whole, offered)
    assert len(unconditional.devices) == len(whole.devices)
    assert not any(device.binding_conditions for device in unconditional.devices)
