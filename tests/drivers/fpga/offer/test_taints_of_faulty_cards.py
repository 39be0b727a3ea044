"""Which devices a fault taints."""

from pathlib import Path

import pytest

from dradriver_fpga.card import FaultKind
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import CATALOG, SimulatedFpgas
from dradriver_fpga.offer import list_offers, make_fault_taints
from tests.drivers.fpga.kernel.cards import add_card, add_function, bind_to_vfio
from tests.drivers.fpga.kernel.tree import Tree

PAC = "0000:3b:00.0"


def taints(hardware: SimulatedFpgas) -> dict[str, str]:
    """The value of the taint of each device, by the device's name without the card's."""
    (card,) = hardware.cards()
    found = make_fault_taints(list_offers(card, (), management=True))
    assert all(taint.effect == "NoSchedule" for each in found.values() for taint in each)
    return {
        name.removeprefix(card.name): str(taint.value) for name, each in sorted(found.items()) for taint in each
    }


WHOLE = ("", "-management", "-region-0", "-region-1", "-slot-0-0", "-slot-1-0")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (FaultKind.FATAL_ERROR, "fatal-error"),
        (FaultKind.OFFLINE, "offline"),
        (FaultKind.OVERHEATED, "overheated"),
        (FaultKind.MEMORY_ERROR, "memory-error"),
        (FaultKind.ERROR, "error"),
    ],
)
def test_a_fault_of_the_card_taints_all_its_devices(kind: FaultKind, value: str) -> None:
    hardware = SimulatedFpgas(["pac"])
    hardware.report_fault(PAC, kind)
    assert taints(hardware) == dict.fromkeys(WHOLE, value)
    hardware.clear_faults(PAC)
    assert taints(hardware) == {}


def test_a_fault_of_a_region_taints_what_contains_the_region() -> None:
    hardware = SimulatedFpgas(["pac"])
    hardware.report_fault(f"{PAC}/1", FaultKind.POWERED_DOWN)
    assert set(taints(hardware)) == {"", "-management", "-region-1", "-slot-1-0"}


def test_a_fault_that_programming_ends_taints_slots_only() -> None:
    hardware = SimulatedFpgas(["pac"])
    hardware.silence_logic(f"{PAC}/0")
    assert taints(hardware) == {"-slot-0-0": "no-answer"}


def test_the_worst_of_several_faults_is_the_taint() -> None:
    hardware = SimulatedFpgas(["pac"])
    for kind in (FaultKind.ERROR, FaultKind.FATAL_ERROR, FaultKind.OVERHEATED):
        hardware.report_fault(PAC, kind)
    assert taints(hardware) == dict.fromkeys(WHOLE, "fatal-error")


def test_a_fault_of_the_card_taints_its_functions_and_a_fault_of_a_port_does_not(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "sys")
    add_card(tree, CATALOG["pac"], "0000:b1:00.0", 0)
    bind_to_vfio(tree, add_function(tree, CATALOG["n6001"], "0000:b1:00.1"), "7")
    engine = "pci0000:b0/0000:b1:00.0/fpga_region/region0"
    hardware = RealFpgas(FpgaHost(tmp_path / "records.json", sysfs=tree.sysfs))

    def tainted() -> bool:
        cards = hardware.cards()
        offers = list_offers(cards[1], (), node=cards)
        return bool(make_fault_taints(offers)["pci-0000-b1-00-1"])

    for register, taints_function in (
        ("dfl-port.0/errors/errors", False),
        ("dfl-fme.0/errors/fme_errors", True),
    ):
        device, _, attribute = register.partition("/")
        tree.write(f"{engine}/{device}", attribute, "0x1")
        assert tainted() is taints_function
        tree.write(f"{engine}/{device}", attribute, "0x0")
        assert not tainted()
