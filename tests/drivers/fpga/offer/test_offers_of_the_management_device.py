"""`/dev/dfl-fme.N` can program the whole card: only the management device, which operators enable, has it."""

import re
from pathlib import Path

import pytest
import yaml

import dradriver as dra
from dradriver.allocator import Refusal
from dradriver.testing import Harness, device_request
from dradriver_fpga import FpgaConfig
from dradriver_fpga.card import FpgaCard, FpgaHardware
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import CATALOG, SimulatedFpgas
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.containers import make_prepared_device
from dradriver_fpga.offer import DRIVER, FpgaDeviceKind, FpgaOffer, build_pool, list_offers, select_safe_without
from tests.drivers.fpga.kernel.cards import add_card
from tests.drivers.fpga.kernel.tree import Tree
from tests.drivers.fpga.nodes import REGION_0, Node, kind

FUNCTION = "pci0000:30/0000:3b:00.0"
HOLDER = f"{FUNCTION}/fpga_region/region0"
ROOT = Path(__file__).parents[4]
MANAGEMENT = "pci-0000-3b-00-0-management"


def nodes(offer: FpgaOffer) -> list[str]:
    return [node.path for node in make_prepared_device(offer).edits.device_nodes]


def trees(folder: Path) -> dict[str, FpgaHardware]:
    """Cards of DFL with some of their ports and regions away, and every other card."""
    found: dict[str, FpgaHardware] = {f"simulated-{model}": SimulatedFpgas([model]) for model in CATALOG}
    away = {
        "whole": [],
        "one port is a virtual function's": [f"{HOLDER}/dfl-port.0"],
        "all ports are": [f"{HOLDER}/dfl-port.0", f"{HOLDER}/dfl-port.1"],
        "one region, whose ports are": [
            f"{HOLDER}/dfl-port.0",
            f"{HOLDER}/dfl-port.1",
            f"{HOLDER}/dfl-fme.0/dfl-fme-region.1",
        ],
        "one region with both ports": [f"{HOLDER}/dfl-fme.0/dfl-fme-region.1"],
    }
    for number, (name, make_removed_taints) in enumerate(away.items()):
        tree = Tree(folder / str(number) / "sys")
        add_card(tree, CATALOG["pac"], "0000:3b:00.0", 0)
        for device in make_removed_taints:
            tree.remove(device)
        found[name] = RealFpgas(
            FpgaHost(folder / f"{number}.json", sysfs=tree.sysfs, region_tools=(), shell_tools={})
        )
    return found


@pytest.fixture
def cards(tmp_path: Path) -> dict[str, FpgaCard]:
    return {name: card for name, each in trees(tmp_path).items() for card in each.cards()}


def test_only_the_management_device_has_the_nodes_that_program_the_card(cards: dict[str, FpgaCard]) -> None:
    given = {
        (name, offer.name): nodes(offer)
        for name, card in cards.items()
        for offer in list_offers(card, (), include_unknown=True)
    }
    assert not {device: paths for device, paths in given.items() if any("dfl-fme" in path for path in paths)}


def test_a_useless_device_is_not_offered(cards: dict[str, FpgaCard]) -> None:
    offered = {name: list_offers(card, ()) for name, card in cards.items()}
    assert all(offer.nodes or offer.programmable for each in offered.values() for offer in each)
    assert offered["all ports are"] == []
    assert offered["one region, whose ports are"] == []
    assert [offer.kind for offer in offered["one port is a virtual function's"]] == [
        FpgaDeviceKind.SLOT,
        FpgaDeviceKind.REGION,
        FpgaDeviceKind.CARD,
    ]


def test_a_device_reports_its_number_of_device_nodes(cards: dict[str, FpgaCard]) -> None:
    for card in cards.values():
        found = list_offers(card, ())
        for offer, device in zip(found, build_pool([found] if found else [], {}).devices, strict=True):
            assert device.attribute("deviceNodes") == len(nodes(offer))
    zynq = build_pool([list_offers(cards["simulated-zynq"], ())], {}).devices
    assert {device.attribute("deviceNodes") for device in zynq} == {0}


def test_an_operator_switches_the_management_on(node: Node) -> None:
    (card,) = node.controls.cards()
    assert not any(offer.kind is FpgaDeviceKind.MANAGEMENT for offer in list_offers(card, ()))
    found = list_offers(card, (), management=True)
    device = {each.name: each for each in build_pool([found], {}).devices}[MANAGEMENT]
    assert nodes(found[-1]) == ["/dev/dfl-fme.0", "/dev/dfl-port.0", "/dev/dfl-port.1"]
    assert device.attribute("type") == "management"
    assert not device.binding_conditions
    (consumed,) = device.consumes_counters
    assert {name: str(counter.value) for name, counter in consumed.counters.items()} == {
        "region-0-slot-0": "1",
        "region-1-slot-0": "1",
    }
    kept = select_safe_without({"consumesCounters", "sharedCounters"}, build_pool([found], {}), [found])
    assert MANAGEMENT not in {each.name for each in kept.devices}


def test_cards_without_such_a_node_have_no_management() -> None:
    for model in ("zynq", "alveo"):
        (card,) = SimulatedFpgas([model]).cards()
        assert not any(
            offer.kind is FpgaDeviceKind.MANAGEMENT for offer in list_offers(card, (), management=True)
        )


@pytest.fixture
def managed(node: Node) -> Node:
    node.settings["managementDevices"] = True
    return node


def test_its_claim_gets_the_node_and_the_whole_card(managed: Node, tmp_path: Path) -> None:
    with Harness(managed.driver, tmp_path / "h") as harness:
        claim = harness.allocate_blindly(("node-1", MANAGEMENT))
        harness.prepare(claim)
        spec = harness.spec(claim)
        assert spec is not None
        given = [each.path for device in spec.devices for each in device.container_edits.device_nodes]
        assert given == ["/dev/dfl-fme.0", "/dev/dfl-port.0", "/dev/dfl-port.1"]
        with pytest.raises(Refusal):
            harness.allocate(device_request(DRIVER, " && ".join(kind("region"))))


def test_the_content_is_unknown_after_the_management_device_was_used(managed: Node, tmp_path: Path) -> None:
    image = managed.images.fitting("pac")
    managed.controls.program(REGION_0, image, timeout=10)
    assert managed.controls.cards()[0].regions[0].bitstream == image.sha256
    with Harness(managed.driver, tmp_path / "h") as harness:
        harness.prepare(harness.allocate_blindly(("node-1", MANAGEMENT)))
    assert {region.bitstream for region in managed.controls.cards()[0].regions} == {""}


def test_it_takes_no_bitstream(managed: Node, tmp_path: Path) -> None:
    image = managed.images.fitting("pac")
    config = FpgaConfig(bitstream=RequestedBitstream(file=image.path.name, sha256=image.sha256))
    with Harness(managed.driver, tmp_path / "h") as harness:
        claim = harness.allocate_blindly(("node-1", MANAGEMENT), config=config)
        with pytest.raises(dra.DraError, match="accepts no bitstream"):
            harness.prepare(claim)
    assert not managed.programmed


def test_it_is_gone_when_the_operator_switches_it_off(managed: Node, tmp_path: Path) -> None:
    with Harness(managed.driver, tmp_path / "h") as harness:
        claim = harness.allocate_blindly(("node-1", MANAGEMENT))
        managed.settings["managementDevices"] = False
        harness.restart()
        with pytest.raises(dra.DraError, match="is not offered by the driver"):
            harness.prepare(claim)


async def test_admin_access_to_it_is_refused(managed: Node, tmp_path: Path) -> None:
    """An administrator who monitors a card must not be able to program it under its users."""
    driver = managed.driver()
    driver.set_context(dra.DriverContext("node-1", tmp_path / "driver"))
    device = dra.AllocatedDevice("fpga", "node-1", MANAGEMENT, admin_access=True)
    with pytest.raises(dra.DraError, match="admin access is not allowed"):
        await driver.prepare(dra.Claim("uid", "default", "claim", (device,)))
    await driver.shutdown()


def test_no_other_class_of_the_chart_or_the_manifests_matches_it(managed: Node) -> None:
    """Each class selects one type. The class for management devices exists only if its setting is on."""
    values = yaml.safe_load((ROOT / "packaging/chart/values.yaml").read_text())["drivers"]["fpga"]
    assert not values["settings"]["managementDevices"]
    selectors = {each["name"]: each["selectors"] for each in values["deviceClasses"]}
    conditional = [each["name"] for each in values["deviceClasses"] if each.get("ifSetting")]
    assert conditional == ["fpga-management.example.com"]
    for document in yaml.safe_load_all((ROOT / "drivers/fpga/manifests/classes.yaml").read_text()):
        name = document["metadata"]["name"]
        selectors[f"manifest {name}"] = [each["cel"]["expression"] for each in document["spec"]["selectors"]]
    (card,) = managed.controls.cards()
    pool = build_pool([list_offers(card, (), management=True)], {})
    (device,) = (each for each in pool.devices if each.name == MANAGEMENT)
    matching = [name for name, each in selectors.items() if all(matches(text, device) for text in each)]
    assert matching == conditional


def matches(expression: str, device: dra.Device) -> bool:
    """Whether a class of this driver selects the device by its type."""
    (kind_of_class,) = re.findall(r"""\.type == ["']([a-z]+)["']""", expression)
    return device.attribute("type") == str(kind_of_class)
