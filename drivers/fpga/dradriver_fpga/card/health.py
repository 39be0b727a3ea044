"""Detects faults of a card from its own state. Pure."""

from collections.abc import Iterator

from dradriver_fpga.card.faults import Fault, FaultKind
from dradriver_fpga.card.values import BLANK_ID, FpgaCard, Region

__all__ = ["find_faults"]


def find_faults(card: FpgaCard) -> tuple[Fault, ...]:
    """Return all faults of a card.

    Args:
        card: the card.
    """
    return tuple(_iterate_faults(card))


def _iterate_faults(card: FpgaCard) -> Iterator[Fault]:
    yield from card.reported_faults
    only_region = card.regions[0].id if len(card.regions) == 1 else ""
    for manager in card.managers:
        if manager.state.is_error:
            message = (
                f"{card.id}: the FPGA manager is in state {manager.state.value!r} {manager.status}".rstrip()
            )
            yield Fault(FaultKind.PROGRAMMING_FAILED, only_region, message)
    for region in card.regions:
        if _is_silent(region):
            yield Fault(FaultKind.NO_ANSWER, region.id, f"{region.id} does not answer: its AFU ID is ffff...")


def _is_silent(region: Region) -> bool:
    return BLANK_ID in {region.afu_id, *(slot.afu_id for slot in region.slots)}
