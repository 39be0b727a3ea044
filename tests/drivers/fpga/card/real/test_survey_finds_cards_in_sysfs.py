"""Trees of sysfs that differ from the simulator's cards."""

from pathlib import Path

import pytest

from dradriver_fpga.card import CardKind, FpgaCard, FpgaNotSupportedError, ManagerState
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import CATALOG, SimulatedFpgas
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.drivers.fpga.kernel.cards import add_card, add_fpga_manager, node
from tests.drivers.fpga.kernel.fake import FakeKernel
from tests.drivers.fpga.kernel.tree import Tree

ZYNQ, PAC = CATALOG["zynq"], CATALOG["pac"]
FUNCTION = "pci0000:30/0000:3b:00.0"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "sys")


def hardware(tree: Tree) -> RealFpgas:
    folder = tree.sysfs.parent
    return RealFpgas(
        FpgaHost(records=folder / "records.json", sysfs=tree.sysfs, region_tools=(), shell_tools={})
    )


def only(tree: Tree) -> FpgaCard:
    (card,) = hardware(tree).cards()
    return card


def add_region(tree: Tree, owner: str, number: int, **attributes: str) -> None:
    tree.add(owner, "platform")
    tree.add(f"{owner}/fpga_region/region{number}", "fpga_region", attributes)


def test_a_node_without_fpgas_has_none(tree: Tree) -> None:
    assert hardware(tree).cards() == ()


@pytest.mark.parametrize("model", CATALOG)
def test_cards_in_sysfs_equal_those_of_the_simulator(tmp_path: Path, model: str) -> None:
    """Two implementations that share no code but names, field for field."""
    kernel = FakeKernel(tmp_path)
    kernel.plug(model)
    (real,) = RealFpgas(kernel.host, kernel).cards()
    (simulated,) = SimulatedFpgas([model]).cards()
    if real.mechanism is None:  # a PAC's shell is for an operator's own program
        assert model in {"pac", "n6001"}
    fields = (
        "id",
        "name",
        "kind",
        "vendor",
        "device",
        "shell",
        "interface_id",
        "pcie_root",
        "numa_node",
        "serial",
    )
    for field in (*fields, "regions", "managers", "bridges", "management", "function_nodes"):
        assert getattr(real, field) == getattr(simulated, field), field


def test_regions_of_a_platform_are_found_by_the_device_tree(tree: Tree) -> None:
    for name, phandle in (("axi/one.devcfg", b"\0\0\0\1"), ("axi/two.devcfg", b"\0\0\0\2")):
        add_card(tree, ZYNQ, name, phandle[-1])
        (tree.path(f"platform/{name}") / "of_node").mkdir()
        (tree.path(f"platform/{name}") / "of_node" / "phandle").write_bytes(phandle)
    for number, phandle in enumerate((b"\0\0\0\2", b"\0\0\0\1", b"\0\0\0\2")):
        owner = f"platform/axi/axi:region{number}"
        add_region(tree, owner, number)
        (tree.path(owner) / "of_node").mkdir()
        (tree.path(owner) / "of_node" / "fpga-mgr").write_bytes(phandle)
    one, two = hardware(tree).cards()
    assert (len(one.regions), len(two.regions)) == (1, 2)
    assert [region.id for region in two.regions] == ["axi/two.devcfg/0", "axi/two.devcfg/1"]


def test_regions_of_a_platform_belong_to_its_only_manager(tree: Tree) -> None:
    add_card(tree, ZYNQ, "axi/f8007000.devcfg", 0)
    add_region(tree, "platform/axi/axi:fpga-full", 3, compat_id="AB" * 16)
    card = only(tree)
    assert [region.interface_id for region in card.regions] == ["ab" * 16]
    assert card.interface_id == "ab" * 16


def test_a_region_without_a_manager_is_shown_and_not_programmed(tree: Tree, tmp_path: Path) -> None:
    add_region(tree, "platform/lonely", 0)
    card = only(tree)
    assert (card.id, card.regions[0].state) == ("lonely", ManagerState.UNKNOWN)
    with pytest.raises(FpgaNotSupportedError, match="lonely/0"):
        hardware(tree).program("lonely/0", Bitstreams(tmp_path).fitting("zynq"), timeout=1)


def test_a_manager_of_the_mainline_kernel_takes_no_files(tree: Tree) -> None:
    """Only vendors' kernels have its attribute `firmware`."""
    tree.add("platform/ff706000.fpga-mgr", "platform")
    add_fpga_manager(tree, ZYNQ, "platform/ff706000.fpga-mgr", 0)
    card = only(tree)
    assert (card.mechanism, card.regions[0].mechanism) == (None, None)


def test_an_unknown_state_reads_as_unknown(tree: Tree) -> None:
    add_card(tree, ZYNQ, "axi/f8007000.devcfg", 0)
    tree.write("platform/axi/f8007000.devcfg/fpga_manager/fpga0", "state", "unknown: 0x42")
    assert only(tree).regions[0].state is ManagerState.UNKNOWN


def test_the_status_of_a_manager_is_read(tree: Tree) -> None:
    add_card(tree, ZYNQ, "axi/f8007000.devcfg", 0)
    errors = "reconfig CRC error\nreconfig incompatible image"
    tree.write("platform/axi/f8007000.devcfg/fpga_manager/fpga0", "status", errors)
    assert only(tree).managers[0].status == "reconfig CRC error, reconfig incompatible image"


def test_a_virtual_function_has_a_port_and_nothing_to_program_it(tree: Tree) -> None:
    tree.add("pci0000:30/0000:3b:00.1", "pci", {"vendor": "0x8086", "device": "0x09c5", "numa_node": "-1"})
    holder = "pci0000:30/0000:3b:00.1/fpga_region/region0"
    tree.add(holder, "fpga_region")
    tree.add(f"{holder}/dfl-port.4", "platform", {"afu_id": PAC.afu, "id": "1", **node("dfl-port.4")})
    card = only(tree)
    assert (card.kind, card.mechanism, card.numa_node) == (CardKind.DFL, None, None)
    (region,) = card.regions
    assert (region.mechanism, region.afu_id) == (None, PAC.afu)
    assert [each.path for each in region.slots[0].nodes] == ["/dev/dfl-port.4"]


def test_ports_are_in_the_order_of_their_ids(tree: Tree) -> None:
    """The kernel numbers them in the order in which it found them."""
    add_card(tree, PAC, "0000:3b:00.0", 0)
    holder = f"{FUNCTION}/fpga_region/region0"
    tree.write(f"{holder}/dfl-port.0", "id", "1")
    tree.write(f"{holder}/dfl-port.1", "id", "0")
    slots = [slot for region in only(tree).regions for slot in region.slots]
    assert [slot.nodes[0].path for slot in slots] == ["/dev/dfl-port.1", "/dev/dfl-port.0"]


def test_a_port_that_a_virtual_function_has_is_missed_by_its_region_alone(tree: Tree) -> None:
    add_card(tree, PAC, "0000:3b:00.0", 0)
    tree.remove(f"{FUNCTION}/fpga_region/region0/dfl-port.0")
    away, here = only(tree).regions
    assert (away.mechanism, away.slots) == (None, ())
    assert [node.path for slot in here.slots for node in slot.nodes] == ["/dev/dfl-port.1"]


def test_one_region_may_have_several_slots(tree: Tree) -> None:
    add_card(tree, PAC, "0000:3b:00.0", 0)
    tree.remove(f"{FUNCTION}/fpga_region/region0/dfl-fme.0/dfl-fme-region.1")
    (region,) = only(tree).regions
    assert [slot.id for slot in region.slots] == ["0000:3b:00.0/0/0", "0000:3b:00.0/0/1"]


def test_a_card_without_its_management_function_keeps_its_id(tree: Tree) -> None:
    """In a virtual machine there is the user function alone."""
    add_card(tree, CATALOG["alveo"], "0000:af:00.1", 0)
    tree.remove("pci0000:a0/0000:af:00.0")
    card = only(tree)
    assert (card.id, card.managers, len(card.regions)) == ("0000:af:00.1", (), 1)


def test_a_card_without_a_controller_has_the_serial_number_of_its_pci_device(tree: Tree) -> None:
    add_card(tree, PAC, "0000:3b:00.0", 0)
    tree.write(FUNCTION, "serial_number", "64-4c-36-1b-00-00-0a-35")
    assert only(tree).serial == "64-4c-36-1b-00-00-0a-35"


def test_other_cards_of_the_vendor_are_no_fpgas_of_ours(tree: Tree) -> None:
    tree.add("pci0000:00/0000:01:00.0", "pci", {"vendor": "0x10ee", "device": "0x9038"})
    assert hardware(tree).cards() == ()


def test_parts_that_go_while_they_are_read_read_as_nothing(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are there when a folder is listed, and fail when they are opened."""
    add_card(tree, PAC, "0000:3b:00.0", 0)

    def gone(path: Path, *_: object, **__: object) -> str:
        raise OSError(19, "No such device", str(path))

    monkeypatch.setattr(Path, "read_text", gone)
    card = only(tree)
    assert (card.vendor, card.shell, card.regions[0].afu_id) == ("", "", "")


def test_long_paths_and_paths_that_read_alike_have_names_of_their_own(tree: Tree) -> None:
    long = "axi/" + "very-" * 20 + "long"
    for number, name in enumerate(("axi/a.b", "axi/a-b", long)):
        add_card(tree, ZYNQ, name, number)
    names = [card.name for card in hardware(tree).cards()]
    assert len(set(names)) == 3
    assert all(len(name) <= 40 and name.strip("-") == name for name in names)
