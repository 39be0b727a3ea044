"""What simulated hardware is like now, and where that is kept."""

from pathlib import Path
from typing import TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_fpga.card.values import ManagerState

__all__ = ["CardState", "FileStore", "Load", "MemoryStore", "NodeState", "RegionState", "Store"]


class Load(msgspec.Struct, frozen=True):
    """A bitstream on its way into a card; it goes on while no process looks.

    Attributes:
        target: the region, or the whole card.
        began: Unix time.
        seconds: how long it takes; None when it never ends.
        afu_id: what the region holds in the end.
        shell: what the card runs in the end; None of a region's bitstream.
        fails: where the manager ends instead.
    """

    target: str
    began: float
    seconds: float | None
    afu_id: str = ""
    shell: int | None = None
    fails: ManagerState | None = None


class RegionState(msgspec.Struct):
    """One region: what it holds, and whether its logic answers."""

    afu_id: str = ""
    bitstream: str = ""
    silent: bool = False


class CardState(msgspec.Struct):
    """One simulated card.

    Attributes:
        place: the so-and-so-many-th of its model.
        present: plugged in.
        pulls: how often it was pulled.
        shell: which of the model's.
        manager: where the last programming ended.
        load: programming that is under way, or whose end nobody has seen yet.
        faults: what becomes of the next programming of a target: the state where it ends, None: it hangs.
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
    """All simulated cards of a node, those that were pulled too, and how often one came or went."""

    cards: list[CardState] = []
    changes: int = 0


Store: TypeAlias = SimulatedState[NodeState]
"""Where the state of a node's cards is."""


class MemoryStore(StateInMemory[NodeState]):
    """Cards that are gone with their process."""

    def __init__(self) -> None:
        super().__init__(NodeState)


class FileStore(StateInFile[NodeState]):
    """Cards that outlive processes, and that several of them share."""

    def __init__(self, path: Path) -> None:
        super().__init__(NodeState, path)
