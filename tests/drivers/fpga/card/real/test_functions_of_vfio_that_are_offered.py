"""Functions that are bound to vfio-pci: which of them a container may get."""

from pathlib import Path

import pytest

from dradriver_fpga.card import CardKind
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import CATALOG, FpgaModel
from dradriver_fpga.offer import FpgaDeviceKind, list_offers
from tests.drivers.fpga.kernel.cards import add_function, bind_to_vfio
from tests.drivers.fpga.kernel.tree import Tree

OFS = CATALOG["n6001"]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "sys")


def found(tree: Tree) -> list[str]:
    hardware = RealFpgas(FpgaHost(records=tree.sysfs.parent / "records.json", sysfs=tree.sysfs))
    return [card.id for card in hardware.cards() if card.kind is CardKind.VFIO]


def add(tree: Tree, address: str, group: str, model: FpgaModel = OFS) -> str:
    function = add_function(tree, model, address)
    bind_to_vfio(tree, function, group)
    return function


def test_a_function_of_its_own_group_is_offered(tree: Tree) -> None:
    add(tree, "0000:b1:00.1", "7")
    hardware = RealFpgas(FpgaHost(records=tree.sysfs.parent / "records.json", sysfs=tree.sysfs))
    (offer,) = list_offers(hardware.cards()[0], (), management=True)
    assert (offer.name, offer.kind) == ("pci-0000-b1-00-1", FpgaDeviceKind.FUNCTION)
    assert [each.path for each in offer.nodes] == ["/dev/vfio/7", "/dev/vfio/vfio"]
    assert not offer.programmable


def test_the_function_of_the_management_engine_is_not(tree: Tree) -> None:
    add(tree, "0000:b1:00.0", "7")
    assert found(tree) == []


def test_a_virtual_function_is_offered_whatever_its_number(tree: Tree) -> None:
    function = add(tree, "0000:b1:01.0", "7")
    (tree.path(function) / "physfn").mkdir()
    assert found(tree) == ["0000:b1:01.0"]


def test_functions_that_share_a_group_are_not(tree: Tree) -> None:
    """Who opens the group's node can use all of its functions."""
    add(tree, "0000:b1:00.1", "7")
    add(tree, "0000:b1:00.2", "7")
    assert found(tree) == []


def test_a_bridge_in_the_group_has_no_user(tree: Tree) -> None:
    add(tree, "0000:b1:00.1", "7")
    bridge = add(tree, "0000:b0:00.0", "7", CATALOG["pac"])
    tree.write(bridge, "class", "0x060400")
    assert found(tree) == ["0000:b1:00.1"]


def test_a_function_of_another_driver_is_not(tree: Tree) -> None:
    add_function(tree, OFS, "0000:b1:00.1")
    assert found(tree) == []


def test_a_function_of_another_card_is_not(tree: Tree) -> None:
    add(tree, "0000:b1:00.1", "7", CATALOG["pac"])
    assert found(tree) == []


def test_a_group_without_an_iommu_has_no_node(tree: Tree) -> None:
    """Its node is `/dev/vfio/noiommu-7`: the function could write to all memory of the node."""
    add(tree, "0000:b1:00.1", "7")
    tree.remove("virtual/vfio/7")
    hardware = RealFpgas(FpgaHost(records=tree.sysfs.parent / "records.json", sysfs=tree.sysfs))
    assert list_offers(hardware.cards()[0], ()) == []
