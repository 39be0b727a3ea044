"""The operator's names for IDs: in attributes, in claims, and in the settings themselves."""

from typing import Any

import pytest

import dradriver as dra
from dradriver_fpga.card.simulator import CATALOG
from dradriver_fpga.names import FriendlyNames, is_name
from dradriver_fpga.node import CardInventory
from dradriver_fpga.settings import read_settings
from tests.drivers.fpga.nodes import INTERFACES, Node, kind, pod, wait_for_reason
from tests.unit.conditions.fabric import Lab

PAC = CATALOG["pac"]
DASHED = "9926ab6d-6c92-5a68-aabc-a7d84c545738"
NAMES = {"interfaces": {"arria10-v1": DASHED}, "functions": {"loopback": PAC.afu.upper()}}


def test_names_are_attributes(node: Node) -> None:
    node.settings["names"] = NAMES
    inventory = CardInventory(read_settings(node.text()))
    inventory.update(node.controls.cards())
    found = {device.name[len("pci-0000-3b-00-0") :]: device for device in inventory.build_pool().devices}
    slot, card = found["-slot-0-0"], found[""]
    assert (slot.attribute("interface"), slot.attribute("function")) == ("arria10-v1", "loopback")
    assert (card.attribute("interface"), card.attribute("function")) == ("arria10-v1", "")


def test_the_second_interface_of_a_shell_may_have_the_name() -> None:
    names = FriendlyNames(interfaces={"plp": "ab" * 16})
    assert names.find_interface(("cd" * 16, "ab" * 16)) == "plp"
    assert names.find_interface(()) == names.find_function("") == ""


async def test_a_claim_may_use_the_name_of_its_interface(lab: Lab, node: Node) -> None:
    node.settings["names"] = NAMES
    image = node.images.fitting("pac")
    selectors = kind("region", interface="arria10-v1")
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(image, interfaceID="arria10-v1"), selectors)
        await lab.bound("pod-1")
    assert image.sha256 in {region.bitstream for region in node.controls.cards()[0].regions}


async def test_an_unknown_name_is_reported_with_the_known_ones(lab: Lab, node: Node) -> None:
    node.settings["names"] = NAMES
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(node.images.fitting("pac"), interfaceID="arria10-v2"))
        condition = await wait_for_reason(lab, "pod-1", "UnknownName")
        assert "'arria10-v2' is not in names.interfaces, which has arria10-v1" in condition.message
        assert not lab.tainted()
    assert not node.programmed


def test_shells_of_the_settings_may_use_names(node: Node) -> None:
    node.with_shells()
    node.settings["names"] = {"interfaces": {"arria10-v1": DASHED}}
    node.settings["shells"][0]["interfaceID"] = "arria10-v1"
    settings = read_settings(node.text())
    assert [shell.interface_id.replace("-", "") for shell in settings.shells] == list(INTERFACES)
    node.settings["shells"][1]["interfaceID"] = "arria10-v1"
    with pytest.raises(dra.UsageError, match=f"interface {INTERFACES[0]} of 8086:09c4 must occur only once"):
        read_settings(node.text())
    node.settings["shells"][1]["interfaceID"] = "nothing"
    with pytest.raises(dra.UsageError, match=r"shells\[1\]: interfaceID: 'nothing' is not in names"):
        read_settings(node.text())


def test_rules_of_the_policy_may_use_names(node: Node) -> None:
    rule: dict[str, Any] = {"namespaces": ["team-a"], "interfaceIDs": ["arria10-v1", "ab" * 16]}
    node.settings["names"] = {"interfaces": {"arria10-v1": DASHED}}
    node.settings["bitstreams"] = {"policy": [rule]}
    assert read_settings(node.text()).bitstreams.policy[0].interface_ids == (INTERFACES[0], "ab" * 16)
    rule["interfaceIDs"] = ["nothing"]
    with pytest.raises(
        dra.UsageError, match=r"bitstreams\.policy\[0\]: interfaceID: 'nothing' is not in names"
    ):
        read_settings(node.text())


@pytest.mark.parametrize(
    ("interfaces", "message"),
    [
        ("{Arria: " + "ab" * 16 + "}", r"names\.interfaces: 'Arria' must be lower-case letters"),
        ("{" + "ab" * 16 + ": " + "ab" * 16 + "}", "and not an ID"),
        ("{a: abc}", r"names\.interfaces\.a: must be 32 hex digits"),
        ("{a: " + "ab" * 16 + ", b: " + "AB" * 16 + "}", r"names\.interfaces: a and b have the same ID"),
    ],
)
def test_a_wrong_name_is_reported_at_the_start(interfaces: str, message: str) -> None:
    with pytest.raises(dra.UsageError, match=message):
        read_settings(f"names: {{interfaces: {interfaces}}}")


@pytest.mark.parametrize(
    ("text", "fits"),
    [("a", True), ("arria10-v1", True), ("-a", False), ("a" * 64, False), ("ab" * 16, False), ("a.b", False)],
)
def test_a_name_is_a_label_and_no_id(text: str, *, fits: bool) -> None:
    assert is_name(text) is fits
