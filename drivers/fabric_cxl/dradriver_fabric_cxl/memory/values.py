"""Properties of the memory that a node reaches through CXL, as frozen values. Sizes are in bytes."""

import enum
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryDevice", "MemoryHealth", "MemoryMode", "UsableMemory"]


class MemoryMode(enum.Enum):
    """How the memory is used."""

    DEVDAX = "devdax"
    """As a character device that programs map: `/dev/dax0.0`."""
    SYSTEM_RAM = "system-ram"
    """As memory of the node, online and movable. Every process of the node can get it."""


class MemoryHealth(enum.Enum):
    """Health of a memory device, as the device itself reports it."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class UsableMemory:
    """Memory that is ready to be used.

    Attributes:
        region: kernel's name of the region: `region0`.
        dax: kernel's name of the dax device: `dax0.0`. Names come again for other memory.
        mode: how the memory is used.
        path: the character device; it exists only in the mode `devdax`.
        major, minor: number of the character device.
        bytes: size.
        align: alignment of mappings.
        numa_node: NUMA node of the memory; -1 if unknown.
    """

    region: str
    dax: str
    mode: MemoryMode
    path: Path
    major: int
    minor: int
    bytes: int
    align: int
    numa_node: int


@dataclass(frozen=True, slots=True)
class MemoryDevice:
    """A device with volatile memory that is plugged into the node (a memdev).

    Attributes:
        name: kernel's name: `mem0`. It comes again for other devices.
        serial: serial number.
        bytes: size of its volatile memory.
        health: health.
        usable: the memory made of it; None if none is made, or it is only partly made.
    """

    name: str
    serial: int
    bytes: int
    health: MemoryHealth
    usable: UsableMemory | None
