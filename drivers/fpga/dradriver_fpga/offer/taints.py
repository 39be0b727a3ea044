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
_VALUES: Final = {kind: kind.name.lower().replace("_", "-") for kind in FaultKind}


def find_faults_of(offer: FpgaOffer) -> list[Fault]:
    """Return the faults of a device: of its present content, and of its whole card.

    A function also has the faults of the whole card that it belongs to, such as a temperature.
    """
    region = offer.region.id if offer.region else None
    own = [fault for fault in find_faults(offer.card) if region is None or fault.region in {"", region}]
    of_owner = find_faults(offer.owner) if offer.owner is not None else ()
    return [
        *own,
        *(fault for fault in of_owner if not fault.region and not fault.kind.is_repaired_by_programming),
    ]


def make_fault_taints(offers: Iterable[FpgaOffer]) -> dict[str, list[dra.Taint]]:
    """Return the taints of faulty devices, by device name. A device has at most one, for its worst fault.

    If programming ends a fault, only slots are tainted: slots are used with their present content, but regions
    and cards are programmed before they are used, so a taint would only make them unusable. All other faults
    taint every device that they concern. No fault evicts pods: a register that nobody has cleared since the
    boot must not end pods when the driver is updated.

    Args:
        offers: the devices.
    """
    return {offer.name: list(_make_taints(offer)) for offer in offers}


def make_removed_taints(card: FpgaCard, offers: Sequence[FpgaOffer]) -> dict[str, list[dra.Taint]]:
    """Return the taints for the devices of a pulled card. They evict the pods that use these devices.

    Args:
        card: the card.
        offers: the devices of the card.
    """
    taint = dra.Taint(key=_REMOVED, effect="NoExecute")
    return {offer.name: [taint] for offer in offers if offer.card.id == card.id}


def _make_taints(offer: FpgaOffer) -> Iterator[dra.Taint]:
    kinds = {fault.kind for fault in find_faults_of(offer)}
    if offer.kind is not FpgaDeviceKind.SLOT:
        kinds = {kind for kind in kinds if not kind.is_repaired_by_programming}
    worst = next((kind for kind in FaultKind if kind in kinds), None)
    if worst is not None:
        yield dra.Taint(key=_FAULT, effect="NoSchedule", value=_VALUES[worst])
