"""What time does to programming: pure, so that hardware goes on while no process looks."""

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
"""The part of the time after which a phase begins, in their order."""


def state_of(load: Load, now: float) -> ManagerState:
    """What the manager is doing: a phase, or where it ended."""
    if load.seconds is None:
        return ManagerState.WRITE
    passed = now - load.began
    begun = [phase for phase, begin in _BEGINS.items() if begin * load.seconds <= passed]
    if load.fails is not None and any(load.fails.value == f"{phase.value} error" for phase in begun):
        return load.fails
    return ManagerState.OPERATING if passed >= load.seconds else begun[-1]


def settle(card: CardState, now: float) -> None:
    """Makes what a load did meanwhile the card's state."""
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
        # What was written in part is no logic.
        region.silent = not operating and card.manager in {
            ManagerState.WRITE_ERROR,
            ManagerState.WRITE_COMPLETE_ERROR,
        }
        region.afu_id = load.afu_id if operating else region.afu_id
