"""Progress of programming as a pure function of time, so that it continues while no process runs."""

from collections.abc import Mapping
from typing import Final

from dradriver_fpga.card.simulator.state import CardState, Load
from dradriver_fpga.card.values import ManagerState

__all__ = ["settle", "state_of"]

_BEGINS: Final[Mapping[ManagerState, float]] = {
    ManagerState.FIRMWARE_REQUEST: 0.0,
    ManagerState.PARSE_HEADER: 0.05,
    ManagerState.WRITE_INIT: 0.1,
    ManagerState.WRITE: 0.2,
    ManagerState.WRITE_COMPLETE: 0.9,
}
"""Fraction of the total time after which each phase begins, in their order."""


def state_of(load: Load, now: float) -> ManagerState:
    """Return the manager's state: a phase, or the final state."""
    if load.seconds is None:
        return ManagerState.WRITE
    passed = now - load.began
    begun = [phase for phase, begin in _BEGINS.items() if begin * load.seconds <= passed]
    if load.fails is not None and any(load.fails.value == f"{phase.value} error" for phase in begun):
        return load.fails
    return ManagerState.OPERATING if passed >= load.seconds else begun[-1]


def settle(card: CardState, now: float) -> None:
    """Update the card with the progress of its load until now."""
    load = card.load
    if load is None:
        return
    card.manager = state_of(load, now)
    if card.manager.is_busy:
        return
    card.load = None
    operating = card.manager is ManagerState.OPERATING
    if load.shell is not None and operating:
        card.shell = load.shell
    for region in (
        card.regions if load.shell is not None else [card.regions[int(load.target.rsplit("/", 1)[1])]]
    ):
        # A partly written bitstream is no working logic.
        region.silent = not operating and card.manager in {
            ManagerState.WRITE_ERROR,
            ManagerState.WRITE_COMPLETE_ERROR,
        }
        region.afu_id = load.afu_id if operating else region.afu_id
