"""Taints of faulty and pulled devices."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import dradriver as dra
from dradriver_fpga.card import Fault, FaultKind, FpgaCard, find_faults
from dradriver_fpga.offer.offers import FpgaDeviceKind, FpgaOffer
from dradriver_fpga.offer.pool import DRIVER

__all__ = ["find_faults_of", "make_fault_taints", "make_removed_taints"]

_FAULT: Final = f"{DRIVER}/fault"
_REMOVED: Final = f"{DRIVER}/removed"
_VALUES: Final = {FaultKind.NO_ANSWER: "no-answer", FaultKind.PROGRAMMING_FAILED: "programming-failed"}


def find_faults_of(offer: FpgaOffer) -> list[Fault]:
    """Return the faults of a device's present content."""
    region = offer.region.id if offer.region else None
    return [fault for fault in find_faults(offer.card) if region is None or fault.region in {"", region}]


def make_fault_taints(offers: Iterable[FpgaOffer]) -> dict[str, list[dra.Taint]]:
    """Return the taints of slots, by device name.

    Only slots are used with their present content. Regions and cards are programmed before they are used.
    Programming ends a fault, so a taint would only make regions and cards unusable.

    Args:
        offers: the devices.
    """
    slots = (offer for offer in offers if offer.kind is FpgaDeviceKind.SLOT)
    return {offer.name: list(_make_taints(find_faults_of(offer))) for offer in slots}


def make_removed_taints(card: FpgaCard, offers: Sequence[FpgaOffer]) -> dict[str, list[dra.Taint]]:
    """Return the taints for the devices of a pulled card. They evict the pods that use these devices.

    Args:
        card: the card.
        offers: the devices of the card.
    """
    taint = dra.Taint(key=_REMOVED, effect="NoExecute")
    return {offer.name: [taint] for offer in offers if offer.card.id == card.id}


def _make_taints(faults: Iterable[Fault]) -> Iterator[dra.Taint]:
    for kind in sorted({fault.kind for fault in faults}, key=lambda kind: kind.value):
        yield dra.Taint(key=_FAULT, effect="NoSchedule", value=_VALUES[kind])
