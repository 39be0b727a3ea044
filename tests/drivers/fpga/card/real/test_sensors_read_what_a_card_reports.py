"""Files of sysfs that make a card faulty, one by one."""

from pathlib import Path

import pytest

from dradriver_fpga.card import Fault, FaultKind, FpgaCard, find_faults
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import CATALOG
from tests.drivers.fpga.kernel.cards import add_card
from tests.drivers.fpga.kernel.tree import Tree

ENGINE = "pci0000:30/0000:3b:00.0/fpga_region/region0/dfl-fme.0"
PORT = "pci0000:30/0000:3b:00.0/fpga_region/region0/dfl-port.1"
USER, MANAGEMENT = "pci0000:a0/0000:af:00.1", "pci0000:a0/0000:af:00.0"
FATAL, ERROR, OFFLINE = FaultKind.FATAL_ERROR, FaultKind.ERROR, FaultKind.OFFLINE


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "sys")
    add_card(tree, CATALOG["pac"], "0000:3b:00.0", 0)
    add_card(tree, CATALOG["alveo"], "0000:af:00.1", 1)
    return tree


def read(tree: Tree) -> tuple[FpgaCard, ...]:
    host = FpgaHost(records=tree.sysfs.parent / "records.json", sysfs=tree.sysfs)
    return RealFpgas(host).cards()


def faults(tree: Tree) -> list[Fault]:
    return [fault for card in read(tree) for fault in find_faults(card)]


@pytest.mark.parametrize(
    ("device", "attribute", "text", "kind", "region"),
    [
        (ENGINE, "errors/catfatal_errors", "0x20", FATAL, ""),
        (ENGINE, "errors/nonfatal_errors", "0x1", ERROR, ""),
        (ENGINE, "errors/fme_errors", "0x4", ERROR, ""),
        (ENGINE, "errors/pcie0_errors", "0x100", ERROR, ""),
        (ENGINE, "errors/pcie1_errors", "0x100", ERROR, ""),
        (ENGINE, "errors/inject_errors", "0x2", ERROR, ""),
        (PORT, "errors/errors", "0x400", ERROR, "0000:3b:00.0/1"),
        (PORT, "power_state", "0x6", FaultKind.POWERED_DOWN, "0000:3b:00.0/1"),
        (f"{ENGINE}/hwmon/hwmon0", "temp1_crit_alarm", "1", FaultKind.OVERHEATED, ""),
        (f"{ENGINE}/hwmon/hwmon0", "temp1_input", "95000", FaultKind.OVERHEATED, ""),
        (USER, "dev_offline", "1", OFFLINE, ""),
        (USER, "ready", "0x0", OFFLINE, ""),
        (MANAGEMENT, "dev_offline", "1", OFFLINE, ""),
        (MANAGEMENT, "firewall.m.2/detected_level", "3", ERROR, ""),
        (USER, "mig.u.1/ecc_ue_cnt", "1", FaultKind.MEMORY_ERROR, ""),
    ],
)
def test_a_file_makes_a_fault(
    tree: Tree, device: str, attribute: str, text: str, kind: FaultKind, region: str
) -> None:
    assert faults(tree) == []
    tree.write(device, attribute, text)
    (fault,) = faults(tree)
    assert (fault.kind, fault.region) == (kind, region)
    assert any(word in fault.message for word in (attribute, "critical threshold, 95 °C"))


@pytest.mark.parametrize(
    ("device", "attribute", "text"),
    [
        (PORT, "power_state", "0x2"),
        (ENGINE, "errors/first_error", "0x4"),
        (f"{ENGINE}/hwmon/hwmon0", "temp1_input", "94999"),
        (f"{ENGINE}/hwmon/hwmon0", "temp1_max", "1"),
        (ENGINE, "errors/fme_errors", "no number"),
        (USER, "ready", ""),
    ],
)
def test_other_values_make_none(tree: Tree, device: str, attribute: str, text: str) -> None:
    """Throttling is the card's way to stay healthy; `first_error` repeats another register."""
    tree.write(device, attribute, text)
    assert faults(tree) == []


def test_a_temperature_that_changes_changes_no_card(tree: Tree) -> None:
    before = read(tree)
    tree.write(f"{ENGINE}/hwmon/hwmon0", "temp1_input", "61000")
    assert read(tree) == before


def test_the_sensor_of_another_device_is_not_the_cards(tree: Tree) -> None:
    tree.add("platform/coretemp.0/hwmon/hwmon9", "hwmon", {"temp1_crit": "1", "temp1_crit_alarm": "1"})
    assert faults(tree) == []
