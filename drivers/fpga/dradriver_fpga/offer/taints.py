"""Taints of faulty and pulled devices."""

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
    """Return the faults of a device's present content."""
    region = offer.region.id if offer.region else None
    return [fault for fault in faults(offer.card) if region is None or fault.region in {"", region}]


def taints(offers: Iterable[Offer]) -> dict[str, list[dra.Taint]]:
    """Return the taints of devices, by name.

    Only slots are used with their present content. Regions and cards are programmed first, which ends a fault,
    so a taint would only keep them unusable.
    """
    slots = (offer for offer in offers if offer.kind is Kind.SLOT)
    return {offer.name: list(_taints(faults_of(offer))) for offer in slots}


def removed(card: Card, offers: Sequence[Offer]) -> dict[str, list[dra.Taint]]:
    """Return the taints of a pulled card, which evict its pods."""
    taint = dra.Taint(key=_REMOVED, effect="NoExecute")
    return {offer.name: [taint] for offer in offers if offer.card.id == card.id}


def _taints(found: Iterable[Fault]) -> Iterator[dra.Taint]:
    for kind in sorted({fault.kind for fault in found}, key=lambda kind: kind.value):
        yield dra.Taint(key=_FAULT, effect="NoSchedule", value=_VALUES[kind])
