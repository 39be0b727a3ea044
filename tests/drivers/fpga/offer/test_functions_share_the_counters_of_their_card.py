"""A virtual function consumes counters of its card: no shell is written while the function is in use."""

import itertools
from pathlib import Path

import pytest

from dradriver_fpga.card import FpgaCard
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import CATALOG
from dradriver_fpga.card.values import CardKind
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.offer import build_pool, list_offers, select_safe_without
from dradriver_fpga.settings import ShellSettings
from tests.drivers.fpga.kernel.cards import add_card, node
from tests.drivers.fpga.kernel.tree import Tree

PHYSICAL, VIRTUAL = "0000:3b:00.0", "0000:3b:00.1"
HOLDER = f"pci0000:30/{PHYSICAL}/fpga_region/region0"
SHELL = ShellSettings(
    interface_id=CATALOG["pac"].shells[1].interface_id,
    vendor="8086",
    device="09c4",
    bitstream=RequestedBitstream(file="shell", sha256="0" * 64),
)
VF = "pci-0000-3b-00-1"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A card of DFL whose second port a virtual function uses."""
    tree = Tree(tmp_path / "sys")
    add_card(tree, CATALOG["pac"], PHYSICAL, 0)
    tree.remove(f"{HOLDER}/dfl-port.1")
    home = f"pci0000:30/{VIRTUAL}"
    tree.add(home, "pci", {"vendor": "0x8086", "device": "0x09c5", "numa_node": "0"})
    (tree.path(home) / "physfn").symlink_to(f"../{PHYSICAL}")
    tree.add(f"{home}/fpga_region/region9", "fpga_region")
    port = {"id": "1", "afu_id": CATALOG["pac"].afu, **node("dfl-port.1")}
    tree.add(f"{home}/fpga_region/region9/dfl-port.1", "platform", port)
    return tree


def read_cards(tree: Tree, tmp_path: Path) -> tuple[FpgaCard, ...]:
    tools = {CardKind.DFL: ("true", "{file}")}
    return RealFpgas(
        FpgaHost(tmp_path / "r.json", sysfs=tree.sysfs, region_tools=(), shell_tools=tools)
    ).cards()


def test_a_virtual_function_knows_its_card(tree: Tree, tmp_path: Path) -> None:
    assert {card.id: card.parent for card in read_cards(tree, tmp_path)} == {PHYSICAL: "", VIRTUAL: PHYSICAL}


@pytest.mark.parametrize("shells", [(), (SHELL,)], ids=["one shell", "two shells"])
def test_the_shell_is_not_written_while_the_function_is_in_use(
    tree: Tree, tmp_path: Path, shells: tuple[ShellSettings, ...]
) -> None:
    cards = read_cards(tree, tmp_path)
    offered = [list_offers(card, shells, management=True, node=cards) for card in cards]
    pool = build_pool(offered, {})
    (counters,) = pool.counter_sets
    consumed = {device.name: device.consumes_counters[0] for device in pool.devices}
    assert {each.counter_set for each in consumed.values()} == {"pci-0000-3b-00-0"} == {counters.name}
    offers = {offer.name: offer for offers in offered for offer in offers}
    functions = [name for name in offers if name.startswith(VF)]
    assert functions
    for function, other in itertools.product(functions, offers):
        if other.startswith(VF):
            continue
        share_counters = consumed[function].counters.keys() & consumed[other].counters.keys()
        of_function, of_other = consumed[function].compatibility_groups, consumed[other].compatibility_groups
        compatible = set(of_function) & set(of_other) or not (of_function or of_other)
        excluded = bool(share_counters) or not compatible
        writes_shell = offers[other].region is None or offers[other].shell is not None
        assert excluded == writes_shell, f"{function} and {other}"


def test_without_its_card_a_function_stands_alone(tree: Tree, tmp_path: Path) -> None:
    """A virtual machine may have the physical function."""
    (_, virtual) = read_cards(tree, tmp_path)
    pool = build_pool([list_offers(virtual, (), node=[virtual])], {})
    assert [each.name for each in pool.counter_sets] == [VF]


def test_without_counters_the_whole_card_is_not_offered_beside_functions(tree: Tree, tmp_path: Path) -> None:
    for port in ("dfl-port.0", "dfl-fme.0/dfl-fme-region.0", "dfl-fme.0/dfl-fme-region.1"):
        tree.remove(f"{HOLDER}/{port}")
    cards = read_cards(tree, tmp_path)
    offered = [list_offers(card, (), node=cards) for card in cards]
    pool = build_pool(offered, {})
    assert "pci-0000-3b-00-0" in {device.name for device in pool.devices}
    kept = select_safe_without({"consumesCounters", "sharedCounters"}, pool, offered)
    assert [device.name for device in kept.devices] == [f"{VF}-region-0"]
