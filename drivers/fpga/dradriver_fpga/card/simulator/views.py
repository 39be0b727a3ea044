"""Converts the state of simulated hardware to the values of `card`."""

from collections.abc import Iterable, Iterator

from dradriver_fpga.card.errors import TargetNotFoundError
from dradriver_fpga.card.names import card_name
from dradriver_fpga.card.simulator.catalog import CATALOG, CardModel
from dradriver_fpga.card.simulator.state import CardState, NodeState, RegionState
from dradriver_fpga.card.values import (
    BLANK_ID,
    Bridge,
    Card,
    CardKind,
    CardNode,
    Manager,
    Mechanism,
    Region,
    Slot,
)

__all__ = ["blank_regions", "card_id", "card_of", "find_card", "present_card", "region_number"]

_MAJOR = 242


def blank_regions(model: CardModel) -> list[RegionState]:
    """Return the regions as they are after the whole card was programmed."""
    return [RegionState(model.afu) for _ in range(model.regions)]


def card_id(card: CardState) -> str:
    """Return the card's place: a PCI address two buses after the card before it, or a platform path."""
    model = CATALOG[card.model]
    if isinstance(model.place, int):
        return f"0000:{model.place + 2 * card.place:02x}:00.{int(model.kind == 'XRT')}"
    return model.place if not card.place else f"{model.place}.{card.place}"


def find_card(state: NodeState, target: str) -> CardState:
    """Return the card with the ID of a card or a region, plugged in or not.

    Raises:
        TargetNotFoundError: there is none.
    """
    for card in state.cards:
        own = card_id(card)
        if target == own or target in {f"{own}/{number}" for number in range(len(card.regions))}:
            return card
    raise TargetNotFoundError(f"there is no card or region {target}")


def present_card(state: NodeState, target: str) -> CardState:
    """Return the card with the ID of a card or a region.

    Raises:
        TargetNotFoundError: there is none, or it was pulled.
    """
    card = find_card(state, target)
    if not card.present:
        raise TargetNotFoundError(f"there is no card or region {target}")
    return card


def region_number(card: CardState, target: str) -> int | None:
    """Return the number of a region; None for the whole card."""
    return None if target == card_id(card) else int(target.rsplit("/", 1)[1])


def card_of(card: CardState, order: int) -> Card:
    """Return a card as hardware reports it. The lower half of all PCI buses is on the first of two sockets."""
    model, own = CATALOG[card.model], card_id(card)
    shell, on_pci = model.shells[card.shell], isinstance(model.place, int)
    return Card(
        id=own,
        name=card_name(own),
        kind=CardKind[model.kind],
        vendor=model.vendor,
        device=model.device,
        shell=shell.name,
        interface_id=shell.interface_id,
        bitstream=card.bitstream,
        pci_address=own if on_pci else "",
        pcie_root=f"pci0000:{int(own[5:7], 16) & 0xF0:02x}" if on_pci else "",
        numa_node=int(own[5:7], 16) // 0x80 if on_pci else None,
        mechanism=Mechanism[model.shell_mechanism],
        regions=tuple(_regions(card, model, order)),
        managers=(Manager(f"fpga{order}", model.manager, card.manager),),
        bridges=tuple(_bridges(card, order)),
        management=(_node(f"dfl-fme.{order}"),) if model.kind == "DFL" else (),
    )


def _regions(card: CardState, model: CardModel, order: int) -> Iterator[Region]:
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
            mechanism=Mechanism[model.mechanism],
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
        )


def _bridges(card: CardState, order: int) -> Iterable[Bridge]:
    for number in range(len(card.regions)):
        closed = (
            card.manager.is_busy and card.load is not None and region_number(card, card.load.target) == number
        )
        yield Bridge(f"br{16 * order + number}", f"bridge {number}", not closed)


def _node(name: str) -> CardNode:
    return CardNode(f"/dev/{name}", _MAJOR, int("".join(filter(str.isdigit, name))))
