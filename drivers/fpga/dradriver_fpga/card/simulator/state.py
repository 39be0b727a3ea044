"""State of simulated hardware, in memory or in a file."""

from pathlib import Path
from typing import TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_fpga.card.values import ManagerState

__all__ = ["CardState", "FileStore", "Load", "MemoryStore", "NodeState", "RegionState", "Store"]


class Load(msgspec.Struct, frozen=True):
    """A bitstream that is being written to a card. It continues while no process runs.

    Attributes:
        target: the region, or the whole card.
        began: Unix time of the start.
        seconds: duration; None if it never ends.
        afu_id: AFU ID of the region at the end.
        shell: index of the card's shell at the end; None for a region's bitstream.
        fails: error state in which the manager ends; None: it succeeds.
    """

    target: str
    began: float
    seconds: float | None
    afu_id: str = ""
    shell: int | None = None
    fails: ManagerState | None = None


class RegionState(msgspec.Struct):
    """One region: its content, and whether its logic answers."""

    afu_id: str = ""
    bitstream: str = ""
    silent: bool = False


class CardState(msgspec.Struct):
    """One simulated card.

    Attributes:
        place: number among the cards of its model.
        present: whether it is plugged in.
        pulls: how often it was pulled.
        shell: index of the model's shell.
        manager: state in which the last programming ended.
        load: programming that runs, or whose end was not read yet.
        faults: fault of the next programming of a target: the state in which it ends; None: it hangs.
    """

    model: str
    place: int
    regions: list[RegionState]
    present: bool = True
    pulls: int = 0
    shell: int = 0
    bitstream: str = ""
    manager: ManagerState = ManagerState.OPERATING
    load: Load | None = None
    faults: dict[str, ManagerState | None] = {}


class NodeState(msgspec.Struct):
    """All simulated cards of a node, pulled ones too, and the number of changes."""

    cards: list[CardState] = []
    changes: int = 0


Store: TypeAlias = SimulatedState[NodeState]
"""Holds the state of a node's cards."""


class MemoryStore(StateInMemory[NodeState]):
    """State that is lost with the process."""

    def __init__(self) -> None:
        super().__init__(NodeState)


class FileStore(StateInFile[NodeState]):
    """State that outlives the process and that several processes share."""

    def __init__(self, path: Path) -> None:
        super().__init__(NodeState, path)
