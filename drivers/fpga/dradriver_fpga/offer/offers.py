"""Devices that a card offers, their names, and the next step to give a device the requested content."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dradriver_fpga.card import BLANK_ID, CardKind, CardNode, FpgaCard, Region, Slot, normalize_id
from dradriver_fpga.settings import ShellSettings

__all__ = ["FpgaDeviceKind", "FpgaOffer", "ProgrammingStep", "list_offers", "next_step"]


class FpgaDeviceKind(enum.Enum):
    """Kind of a device."""

    SLOT = "slot"
    REGION = "region"
    CARD = "card"
    MANAGEMENT = "management"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class FpgaOffer:
    """One device.

    Attributes:
        name: device name.
        kind: kind of the device.
        card: the card itself, or the card that contains the device.
        region: the device's region; None for a whole card, a function, and a card's management device.
        slot: the device's port; None for regions, and if a region has no ports.
        interface_id: interface for which the device's bitstreams must be made once the card has the required
            shell; "" if unknown.
        shell: the shell that must be written first; None if the card has the required shell.
        group: compatibility group of the device's shell; "" if the card has only one shell.
        owner: the card whose counters the device consumes, if it is not `card`: the parent of a function.
        functions: the functions that writing the card's shell removes; only for a card and its management.
        claims: number of claims that may use the device at the same time.
    """

    name: str
    kind: FpgaDeviceKind
    card: FpgaCard
    region: Region | None = None
    slot: Slot | None = None
    interface_id: str = ""
    shell: ShellSettings | None = None
    group: str = ""
    claims: int = 1
    owner: FpgaCard | None = None
    functions: tuple[FpgaCard, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether several claims may use the device at the same time. No claim programs a shared device."""
        return self.claims > 1

    @property
    def counter_names(self) -> tuple[str, ...]:
        """The names of the counters that the device consumes."""
        if self.region is None:
            own = _make_all_counter_names(self.card)
        elif self.slot is not None:
            own = (_make_counter_name(self.region, self.slot.number),)
        else:
            own = _make_counter_names(self.region)
        if self.owner is not None:
            return tuple(_make_function_counter_name(self.card, name) for name in own)
        others = (
            _make_function_counter_name(card, name)
            for card in self.functions
            for name in _make_all_counter_names(card)
        )
        return (*own, *others)

    @property
    def counter_set(self) -> str:
        """The name of the counter set that the device consumes from."""
        return (self.owner or self.card).name

    @property
    def bitstream(self) -> str:
        """The sha256 of the device's content; "" if it is unknown, or if the shell must be written first."""
        if self.shell is not None:
            return ""
        return self.region.bitstream if self.region else self.card.bitstream

    @property
    def afu_id(self) -> str:
        """The AFU ID of the device's content, as the card reports it."""
        if self.shell is not None or self.region is None:
            return ""
        return self.slot.afu_id if self.slot is not None else self.region.afu_id

    @property
    def interface_ids(self) -> tuple[str, ...]:
        """All interfaces for which the device's bitstreams may be made."""
        present = self.region.interface_ids if self.region is not None and self.shell is None else ()
        return present or ((self.interface_id,) if self.interface_id else ())

    @property
    def programmable(self) -> bool:
        """Whether this node can program the device.

        False for a management device, because its user programs the card.
        """
        return self.kind is not FpgaDeviceKind.MANAGEMENT and (self.region or self.card).mechanism is not None

    @property
    def nodes(self) -> tuple[CardNode, ...]:
        """The device nodes for a container. Only the management device has the nodes that program the card."""
        card, region = self.card, self.region
        if region is None:
            parts = tuple(node for each in card.regions for node in _list_nodes(each))
            if self.kind is FpgaDeviceKind.FUNCTION:
                return card.function_nodes
            return (*card.management, *parts) if self.kind is FpgaDeviceKind.MANAGEMENT else parts
        if self.slot is not None and self.slot.nodes:
            return self.slot.nodes
        return _list_nodes(region)


class ProgrammingStep(enum.Enum):
    """The next step to give a device the requested content."""

    NOTHING = "the content is the requested one"
    SHELL = "write the shell into the card"
    REGION = "write the bitstream into the region"
    CARD = "write the bitstream into the card"


def next_step(offer: FpgaOffer, digest: str) -> ProgrammingStep:
    """Return the next step to give a device the requested content.

    Args:
        offer: the device as it is now.
        digest: sha256 of the requested content; "" for any content.
    """
    if offer.shell is not None:
        return ProgrammingStep.SHELL
    if not digest or (offer.bitstream == digest and offer.afu_id != BLANK_ID):
        return ProgrammingStep.NOTHING
    return ProgrammingStep.CARD if offer.kind is FpgaDeviceKind.CARD else ProgrammingStep.REGION


def list_offers(
    card: FpgaCard,
    shells: Sequence[ShellSettings],
    *,
    management: bool = False,
    include_unknown: bool = False,
    sharing: int = 1,
    node: Sequence[FpgaCard] = (),
) -> list[FpgaOffer]:
    """Return the devices of one card, smallest first.

    A slot is offered with its present content and the present shell. A region is listed once for each shell
    that the card may have. A device that has no device node and cannot be programmed is useless, so it is not
    offered. Examples are a region whose ports a virtual function uses, and a card whose manager is read-only in
    the kernel.

    Args:
        card: the card.
        shells: shells that the operator allows for whole cards.
        management: whether to include the device of the card's management engine.
        include_unknown: whether to include slots with unknown content. They exist, but must not be offered.
        sharing: number of claims that may use a slot of an XRT card at the same time. Other cards have no
            driver that keeps processes apart.
        node: all cards of the node. The functions of a card consume counters of the card, so that the shell is
            not written while a function is in use.
    """
    owner = next((each for each in node if card.parent and each.id == card.parent), None)
    if owner is not None:
        owner_group = _make_present_group(owner, _find_other_shells(owner, shells))
        return [
            replace(each, owner=owner, group=owner_group) for each in list_offers(card, (), sharing=sharing)
        ]
    if card.kind is CardKind.VFIO:
        return [FpgaOffer(card.name, FpgaDeviceKind.FUNCTION, card)] if card.function_nodes else []
    functions = tuple(each for each in node if each.parent == card.id)
    other_shells = _find_other_shells(card, shells)
    group = _make_present_group(card, other_shells)
    claims = sharing if card.kind is CardKind.XRT else 1
    slots = _list_slots(card, group, claims, include_unknown=include_unknown)
    offers = [*slots, *_list_regions(card, None, group)]
    for shell in other_shells if group else ():
        offers += _list_regions(card, shell, _make_group(normalize_id(shell.interface_id)))
    whole = FpgaOffer(card.name, FpgaDeviceKind.CARD, card, interface_id=card.interface_id, functions=functions)
    offers.append(whole)
    if management and card.management:
        offers.append(replace(whole, name=f"{card.name}-management", kind=FpgaDeviceKind.MANAGEMENT))
    return [offer for offer in offers if offer.nodes or offer.programmable]


def _list_slots(card: FpgaCard, group: str, claims: int, *, include_unknown: bool) -> Iterator[FpgaOffer]:
    for region in card.regions:
        interface = region.interface_id or card.interface_id
        for slot in region.slots:
            name = f"{card.name}-slot-{region.number}-{slot.number}"
            yield FpgaOffer(name, FpgaDeviceKind.SLOT, card, region, slot, interface, None, group, claims)
        if not region.slots and (region.bitstream or include_unknown):
            # If a region has no ports and its content is known, the region itself is offered as its only slot.
            name = f"{card.name}-slot-{region.number}-0"
            yield FpgaOffer(name, FpgaDeviceKind.SLOT, card, region, None, interface, None, group, claims)


def _list_regions(card: FpgaCard, shell: ShellSettings | None, group: str) -> Iterator[FpgaOffer]:
    for region in card.regions:
        present = region.interface_id or card.interface_id
        interface = normalize_id(shell.interface_id) if shell else present
        suffix = f"-{interface[:12]}" if group else ""
        yield FpgaOffer(
            f"{card.name}-region-{region.number}{suffix}",
            FpgaDeviceKind.REGION,
            card,
            region,
            None,
            interface,
            shell,
            group,
        )


def _find_other_shells(card: FpgaCard, shells: Sequence[ShellSettings]) -> list[ShellSettings]:
    """Return the shells of the settings that the card may have, except the present one."""
    return [
        shell
        for shell in shells
        if (shell.vendor, shell.device) == (card.vendor, card.device)
        and normalize_id(shell.interface_id) != card.interface_id
    ]


def _make_present_group(card: FpgaCard, other_shells: Sequence[ShellSettings]) -> str:
    """Return the group of the card's present shell; "" if no other shell can be written."""
    has_shells = bool(other_shells and card.interface_id and card.mechanism is not None)
    return _make_group(card.interface_id) if has_shells else ""


def _make_group(interface: str) -> str:
    return f"shell-{interface}"


def _list_nodes(region: Region) -> tuple[CardNode, ...]:
    return (*region.nodes, *(node for slot in region.slots for node in slot.nodes))


def _make_counter_names(region: Region) -> tuple[str, ...]:
    return tuple(_make_counter_name(region, slot.number) for slot in region.slots) or (
        _make_counter_name(region, 0),
    )


def _make_counter_name(region: Region, slot: int) -> str:
    return f"region-{region.number}-slot-{slot}"


def _make_all_counter_names(card: FpgaCard) -> tuple[str, ...]:
    return tuple(name for region in card.regions for name in _make_counter_names(region)) or ("card",)


def _make_function_counter_name(card: FpgaCard, name: str) -> str:
    return f"{card.name}-{name}"
