"""Converts the state of simulated hardware to the values of `card`."""

from collections.abc import Iterable, Iterator

from dradriver_fpga.card.errors import TargetNotFoundError
from dradriver_fpga.card.faults import Fault
from dradriver_fpga.card.simulator.catalog import CATALOG, FpgaModel
from dradriver_fpga.card.simulator.state import CardState, FpgaNodeState, RegionState
from dradriver_fpga.card.values import (
    BLANK_ID,
    Bridge,
    CardKind,
    CardNode,
    FpgaCard,
    Manager,
    Mechanism,
    Region,
    Slot,
    make_card_name,
)

__all__ = ["card_id", "find_card", "find_present_card", "make_blank_regions", "parse_region_number", "to_card"]

_MAJOR = 242


def make_blank_regions(model: FpgaModel) -> list[RegionState]:
    """Return the regions as they are after the whole card was programmed."""
    return [RegionState(model.afu) for _ in range(model.regions)]


def card_id(card: CardState) -> str:
    """Return the card's ID: a platform path, or a PCI address two buses after the previous card."""
    model = CATALOG[card.model]
    if isinstance(model.location, int):
        return f"0000:{model.location + 2 * card.index:02x}:00.{model.function}"
    return model.location if not card.index else f"{model.location}.{card.index}"


def find_card(state: FpgaNodeState, target: str) -> CardState:
    """Return the card that has this ID or contains the region with this ID, plugged in or not.

    Raises:
        TargetNotFoundError: no card matches.
    """
    for card in state.cards:
        own = card_id(card)
        if target == own or target in {f"{own}/{number}" for number in range(len(card.regions))}:
            return card
    raise TargetNotFoundError(f"card or region {target} does not exist")


def find_present_card(state: FpgaNodeState, target: str) -> CardState:
    """Return the plugged-in card that has this ID or contains the region with this ID.

    Raises:
        TargetNotFoundError: no card matches, or the card was pulled.
    """
    card = find_card(state, target)
    if not card.present:
        raise TargetNotFoundError(f"card or region {target} does not exist")
    return card


def parse_region_number(card: CardState, target: str) -> int | None:
    """Return the number of a region; None for the whole card."""
    return None if target == card_id(card) else int(target.rsplit("/", 1)[1])


def to_card(card: CardState, order: int) -> FpgaCard:
    """Return a card as hardware reports it. PCI buses below 0x80 are on NUMA node 0, all others on node 1."""
    model, own = CATALOG[card.model], card_id(card)
    shell, on_pci = model.shells[card.shell], isinstance(model.location, int)
    return FpgaCard(
        id=own,
        name=make_card_name(own),
        kind=CardKind[model.kind],
        vendor=model.vendor,
        device=model.device,
        shell=shell.name,
        interface_id=shell.interface_id,
        bitstream=card.bitstream,
        pci_address=own if on_pci else "",
        pcie_root=f"pci0000:{int(own[5:7], 16) & 0xF0:02x}" if on_pci else "",
        numa_node=int(own[5:7], 16) // 0x80 if on_pci else None,
        mechanism=Mechanism[model.shell_mechanism] if model.shell_mechanism else None,
        regions=tuple(_regions(card, model, order)),
        managers=(Manager(f"fpga{order}", model.manager, card.manager),) if model.manager else (),
        bridges=tuple(_bridges(card, order)),
        management=(_node(f"dfl-fme.{order}"),) if model.kind == "DFL" else (),
        function_nodes=(_node(f"vfio/{order}"), _node("vfio/vfio")) if model.kind == "VFIO" else (),
        shell_timestamp=shell.timestamp,
        serial=model.serial,
        reported_faults=tuple(
            Fault(each.kind, "" if each.region is None else f"{own}/{each.region}", f"{own}: {each.kind.value}")
            for each in card.reported
        ),
    )


def _regions(card: CardState, model: FpgaModel, order: int) -> Iterator[Region]:
    for number, region in enumerate(card.regions):
        target = f"{card_id(card)}/{number}"
        afu = BLANK_ID if region.silent and model.afu else region.afu_id
        yield Region(
            id=target,
            number=number,
            interface_id=model.shells[card.shell].interface_id,
            afu_id=afu,
            bitstream="" if region.silent else region.bitstream,
            state=card.manager,
            mechanism=Mechanism[model.mechanism] if model.mechanism else None,
            slots=tuple(
                Slot(
                    f"{target}/{slot}",
                    slot,
                    afu,
                    (_node(f"dfl-port.{16 * order + number * model.slots + slot}"),),
                )
                for slot in range(model.slots)
            ),
            nodes=(_node(f"dri/renderD{128 + order}"),) if model.kind == "XRT" else (),
            other_interface_ids=model.shells[card.shell].other_interface_ids,
        )


def _bridges(card: CardState, order: int) -> Iterable[Bridge]:
    for number in range(len(card.regions)):
        closed = (
            card.manager.is_busy
            and card.load is not None
            and parse_region_number(card, card.load.target) == number
        )
        yield Bridge(f"br{16 * order + number}", f"bridge {number}", not closed)


def _node(name: str) -> CardNode:
    return CardNode(f"/dev/{name}", _MAJOR, int("".join(filter(str.isdigit, name)) or 0))
