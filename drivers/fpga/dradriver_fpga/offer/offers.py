"""Devices that a card offers, their names, and the next step to give one the requested content."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dradriver_fpga.card import BLANK_ID, Card, CardNode, Region, Slot, normal_id
from dradriver_fpga.settings import ShellSettings

__all__ = ["Kind", "Offer", "Step", "next_step", "offers"]


class Kind(enum.Enum):
    """Kind of a device."""

    SLOT = "slot"
    REGION = "region"
    CARD = "card"
    MANAGEMENT = "management"


@dataclass(frozen=True, slots=True)
class Offer:
    """One device.

    Attributes:
        name: device name.
        kind: kind of the device.
        card: the card that the device is, or that contains it.
        region: its region; None for a whole card and for its management.
        slot: its port; None for regions, and if a region has no ports.
        interface_id: interface for its bitstreams after the card has the required shell; "" if unknown.
        shell: the shell that has to be written first; None if the card has the required shell.
        group: compatibility group of its shell; "" if the card has only one shell.
    """

    name: str
    kind: Kind
    card: Card
    region: Region | None = None
    slot: Slot | None = None
    interface_id: str = ""
    shell: ShellSettings | None = None
    group: str = ""

    @property
    def units(self) -> tuple[str, ...]:
        """The names of the counters that it consumes."""
        if self.region is None:
            return tuple(unit for region in self.card.regions for unit in _units(region)) or ("card",)
        if self.slot is not None:
            return (_unit(self.region, self.slot.number),)
        return _units(self.region)

    @property
    def bitstream(self) -> str:
        """The sha256 of its content; "" if it is unknown, or if the shell has to be written first."""
        if self.shell is not None:
            return ""
        return self.region.bitstream if self.region else self.card.bitstream

    @property
    def afu_id(self) -> str:
        """The AFU ID of its content, as the card reports it."""
        if self.shell is not None or self.region is None:
            return ""
        return self.slot.afu_id if self.slot is not None else self.region.afu_id

    @property
    def programmable(self) -> bool:
        """Whether this node can program it. The user of a card's management programs the card itself."""
        return self.kind is not Kind.MANAGEMENT and (self.region or self.card).mechanism is not None

    @property
    def nodes(self) -> tuple[CardNode, ...]:
        """The device nodes for a container. Only the management device has the nodes that program the card."""
        card, region = self.card, self.region
        if region is None:
            parts = tuple(node for each in card.regions for node in _nodes(each))
            return (*card.management, *parts) if self.kind is Kind.MANAGEMENT else parts
        if self.slot is not None and self.slot.nodes:
            return self.slot.nodes
        return _nodes(region)


class Step(enum.Enum):
    """Next step to give a device the requested content."""

    NOTHING = "it holds what it should"
    SHELL = "write the shell into the card"
    REGION = "write the bitstream into the region"
    CARD = "write the bitstream into the card"


def next_step(offer: Offer, digest: str) -> Step:
    """Return the next step.

    Args:
        offer: the device as it is now.
        digest: sha256 of the requested content; "" for any content.
    """
    if offer.shell is not None:
        return Step.SHELL
    if not digest or (offer.bitstream == digest and offer.afu_id != BLANK_ID):
        return Step.NOTHING
    return Step.CARD if offer.kind is Kind.CARD else Step.REGION


def offers(
    card: Card, shells: Sequence[ShellSettings], *, management: bool = False, unknown_too: bool = False
) -> list[Offer]:
    """Return the devices of one card, smallest first.

    Slots stand for the present content under the present shell. Regions are listed once for each shell that the
    card may have. A device without a device node that cannot be programmed is useless and left out: a region
    whose ports a virtual function has, or a manager that is read-only in the kernel.

    Args:
        card: the card.
        shells: shells that the operator allows for whole cards.
        management: whether to include the device of the card's management engine.
        unknown_too: whether to include slots with unknown content, which are not offered.
    """
    other = [
        shell
        for shell in shells
        if (shell.vendor, shell.device) == (card.vendor, card.device)
        and normal_id(shell.interface_id) != card.interface_id
    ]
    several = bool(other and card.interface_id and card.mechanism is not None)
    group = _group(card.interface_id) if several else ""
    found = [*_slots(card, group, unknown_too=unknown_too), *_regions(card, None, group)]
    for shell in other if several else ():
        found += _regions(card, shell, _group(normal_id(shell.interface_id)))
    found.append(Offer(card.name, Kind.CARD, card, interface_id=card.interface_id))
    if management and card.management:
        name = f"{card.name}-management"
        found.append(Offer(name, Kind.MANAGEMENT, card, interface_id=card.interface_id))
    return [offer for offer in found if offer.nodes or offer.programmable]


def _slots(card: Card, group: str, *, unknown_too: bool) -> Iterator[Offer]:
    for region in card.regions:
        interface = region.interface_id or card.interface_id
        for slot in region.slots:
            name = f"{card.name}-slot-{region.number}-{slot.number}"
            yield Offer(name, Kind.SLOT, card, region, slot, interface, None, group)
        if not region.slots and (region.bitstream or unknown_too):
            # A region without ports is its own only slot, as long as its content is known.
            name = f"{card.name}-slot-{region.number}-0"
            yield Offer(name, Kind.SLOT, card, region, None, interface, None, group)


def _regions(card: Card, shell: ShellSettings | None, group: str) -> Iterator[Offer]:
    for region in card.regions:
        present = region.interface_id or card.interface_id
        interface = normal_id(shell.interface_id) if shell else present
        suffix = f"-{interface[:12]}" if group else ""
        yield Offer(
            f"{card.name}-region-{region.number}{suffix}",
            Kind.REGION,
            card,
            region,
            None,
            interface,
            shell,
            group,
        )


def _group(interface: str) -> str:
    return f"shell-{interface}"


def _nodes(region: Region) -> tuple[CardNode, ...]:
    return (*region.nodes, *(node for slot in region.slots for node in slot.nodes))


def _units(region: Region) -> tuple[str, ...]:
    return tuple(_unit(region, slot.number) for slot in region.slots) or (_unit(region, 0),)


def _unit(region: Region, slot: int) -> str:
    return f"region-{region.number}-slot-{slot}"
