"""State of a node's simulated CXL memory, in memory or in a file."""

import enum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile
from dradriver_fabric_cxl.memory.kernel import DaxDriver
from dradriver_fabric_cxl.memory.values import MemoryHealth

__all__ = [
    "BlockState",
    "MemdevState",
    "MemoryFileStore",
    "MemoryNodeState",
    "MemoryStore",
    "RegionState",
]

_WINDOW: Final = 64 << 30


class BlockState(enum.Enum):
    """State of a block of system RAM."""

    OFFLINE = "offline"
    NORMAL = "online"
    MOVABLE = "online_movable"


class MemdevState(msgspec.Struct):
    """A device that is plugged in.

    Attributes:
        number: number in the kernel's name.
        serial: serial number.
        bytes: size.
        health: health.
        reserved: bytes that are reserved for a region.
        in_use: whether programs use the memory, so that it cannot be brought offline.
        cleared: bytes that were overwritten with zeros; the others have what the last owner left.
    """

    number: int
    serial: int
    bytes: int
    health: MemoryHealth = MemoryHealth.OK
    reserved: int = 0
    in_use: bool = False
    cleared: int = 0


class RegionState(msgspec.Struct):
    """A region.

    Attributes:
        number: number in the kernel's name.
        bytes: size; 0: not set.
        target: serial number of its device; None: it has none.
        committed: whether the decoders are programmed.
        bound: whether it has its driver, and a dax device.
        driver: driver of the dax device.
        blocks: its blocks of system RAM.
        in_use: whether programs used the memory when its device was pulled.
    """

    number: int
    bytes: int = 0
    target: int | None = None
    committed: bool = False
    bound: bool = False
    driver: DaxDriver | None = None
    blocks: list[BlockState] = []
    in_use: bool = False


class MemoryNodeState(msgspec.Struct):
    """A whole node.

    Attributes:
        window: size of the window of addresses in bytes; 0: the computer has no CXL.
        virtual: whether the node is a virtual machine, in which the kernel refuses regions.
        memdevs: devices that are plugged in.
        regions: regions.
        claimed: numbers of regions whose dax device the driver of character devices takes.
        phantom: bytes of system RAM that does not exist anymore, because its region was removed below it.
        faults: number of failures of the next calls, by call.
        changes: number of devices plugged and pulled.
    """

    window: int = _WINDOW
    virtual: bool = False
    memdevs: list[MemdevState] = []
    regions: list[RegionState] = []
    claimed: list[int] = []
    phantom: int = 0
    faults: dict[str, int] = {}
    changes: int = 0


MemoryStore: TypeAlias = SimulatedState[MemoryNodeState]
"""Holds the state of a node's memory."""


class MemoryFileStore(StateInFile[MemoryNodeState]):
    """State that outlives the process and that several processes share."""

    def __init__(self, path: Path) -> None:
        super().__init__(MemoryNodeState, path)
