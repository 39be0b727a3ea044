"""Computes the progress of programming from the time alone, so that it continues while no process runs.

Pure.
"""

from collections.abc import Mapping
from typing import Final

from dradriver_fpga.card.simulator.state import ActiveProgramming, CardState
from dradriver_fpga.card.values import ManagerState

__all__ = ["compute_manager_state", "update_progress"]

_PHASE_STARTS: Final[Mapping[ManagerState, float]] = {
    ManagerState.FIRMWARE_REQUEST: 0.0,
    ManagerState.PARSE_HEADER: 0.05,
    ManagerState.WRITE_INIT: 0.1,
    ManagerState.WRITE: 0.2,
    ManagerState.WRITE_COMPLETE: 0.9,
}
"""For each phase, the fraction of the total time after which the phase begins. The phases are in order."""


def compute_manager_state(load: ActiveProgramming, now: float) -> ManagerState:
    """Return the manager's state: a phase, or the final state."""
    if load.seconds is None:
        return ManagerState.WRITE
    elapsed = now - load.started_at
    phases = [phase for phase, begin in _PHASE_STARTS.items() if begin * load.seconds <= elapsed]
    if load.error_state is not None and any(
        load.error_state.value == f"{phase.value} error" for phase in phases
    ):
        return load.error_state
    return ManagerState.OPERATING if elapsed >= load.seconds else phases[-1]


def update_progress(card: CardState, now: float) -> None:
    """Update the card with the progress of its programming until `now`."""
    load = card.load
    if load is None:
        return
    card.manager = compute_manager_state(load, now)
    if card.manager.is_busy:
        return
    card.load = None
    operating = card.manager is ManagerState.OPERATING
    if load.shell is not None and operating:
        card.shell = load.shell
    for region in (
        card.regions if load.shell is not None else [card.regions[int(load.target.rsplit("/", 1)[1])]]
    ):
        # A partly written bitstream does not work.
        region.silent = not operating and card.manager in {
            ManagerState.WRITE_ERROR,
            ManagerState.WRITE_COMPLETE_ERROR,
        }
        region.afu_id = load.afu_id if operating else region.afu_id
