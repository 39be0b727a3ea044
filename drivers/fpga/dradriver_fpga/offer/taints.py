"""What is wrong with devices, as taints."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import dradriver as dra
from dradriver_fpga.card import Card, Fault, FaultKind, faults
from dradriver_fpga.offer.offers import Kind, Offer
from dradriver_fpga.offer.pool import DRIVER

__all__ = ["faults_of", "removed", "taints"]

_FAULT: Final = f"{DRIVER}/fault"
_REMOVED: Final = f"{DRIVER}/removed"
_VALUES: Final = {FaultKind.NO_ANSWER: "no-answer", FaultKind.PROGRAMMING_FAILED: "programming-failed"}


def faults_of(offer: Offer) -> list[Fault]:
    """What is wrong with what a device holds now."""
    region = offer.region.id if offer.region else None
    return [fault for fault in faults(offer.card) if region is None or fault.region in {"", region}]


def taints(offers: Iterable[Offer]) -> dict[str, list[dra.Taint]]:
    """The taints of devices, by name.

    Only slots are used as they are. Regions and cards are programmed first, and that is what ends a fault: a
    taint would keep them broken.
    """
    slots = (offer for offer in offers if offer.kind is Kind.SLOT)
    return {offer.name: list(_taints(faults_of(offer))) for offer in slots}


def removed(card: Card, offers: Sequence[Offer]) -> dict[str, list[dra.Taint]]:
    """The taints of a card that was pulled: its pods are evicted."""
    taint = dra.Taint(key=_REMOVED, effect="NoExecute")
    return {offer.name: [taint] for offer in offers if offer.card.id == card.id}


def _taints(found: Iterable[Fault]) -> Iterator[dra.Taint]:
    for kind in sorted({fault.kind for fault in found}, key=lambda kind: kind.value):
        yield dra.Taint(key=_FAULT, effect="NoSchedule", value=_VALUES[kind])
