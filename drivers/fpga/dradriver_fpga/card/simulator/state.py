"""State of simulated hardware, in memory or in a file."""

from pathlib import Path
from typing import TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_fpga.card.faults import FaultKind
from dradriver_fpga.card.values import ManagerState

__all__ = [
    "ActiveProgramming",
    "CardState",
    "FpgaFileStore",
    "FpgaMemoryStore",
    "FpgaNodeState",
    "FpgaStore",
    "RegionState",
    "ReportedFault",
]


class ActiveProgramming(msgspec.Struct, frozen=True, rename={"started_at": "began", "error_state": "fails"}):
    """A bitstream that is being written to a card. The programming continues while no process runs.

    Attributes:
        target: the region, or the whole card.
        started_at: Unix time of the start.
        seconds: duration of the programming; None if it never ends.
        afu_id: AFU ID of the region at the end.
        shell: index of the card's shell at the end; None for a region's bitstream.
        error_state: error state in which the manager ends; None: the programming succeeds.
    """

    target: str
    started_at: float
    seconds: float | None
    afu_id: str = ""
    shell: int | None = None
    error_state: ManagerState | None = None


class RegionState(msgspec.Struct):
    """One region: its content, and whether its logic answers."""

    afu_id: str = ""
    bitstream: str = ""
    silent: bool = False


class ReportedFault(msgspec.Struct, frozen=True):
    """A fault that the card reports. `region` is None for the whole card."""

    kind: FaultKind
    region: int | None = None


class CardState(msgspec.Struct, rename={"index": "place", "removals": "pulls"}):
    """One simulated card.

    Attributes:
        index: number among the cards of its model.
        present: whether the card is plugged in.
        removals: how often the card was pulled.
        shell: index of the model's shell.
        manager: state in which the last programming ended.
        load: the programming that is running or whose end was not read yet.
        faults: by target, the error state in which its next programming ends; None: the programming hangs.
        reported: faults that the card reports until they are cleared.
    """

    model: str
    index: int
    regions: list[RegionState]
    present: bool = True
    removals: int = 0
    shell: int = 0
    bitstream: str = ""
    manager: ManagerState = ManagerState.OPERATING
    load: ActiveProgramming | None = None
    faults: dict[str, ManagerState | None] = {}
    reported: list[ReportedFault] = []


class FpgaNodeState(msgspec.Struct):
    """All simulated cards of a node, including pulled cards, and the number of changes."""

    cards: list[CardState] = []
    changes: int = 0


FpgaStore: TypeAlias = SimulatedState[FpgaNodeState]
"""Holds the state of a node's cards."""


class FpgaMemoryStore(StateInMemory[FpgaNodeState]):
    """State in memory, which is lost when the process ends."""

    def __init__(self) -> None:
        super().__init__(FpgaNodeState)


class FpgaFileStore(StateInFile[FpgaNodeState]):
    """State in a file, which outlives the process and which several processes can share."""

    def __init__(self, path: Path) -> None:
        super().__init__(FpgaNodeState, path)
