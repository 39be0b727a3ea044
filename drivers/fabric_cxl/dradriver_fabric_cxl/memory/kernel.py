"""What the kernel shows of a node's CXL memory, and the changes that it accepts.

Sysfs and the simulator implement `CxlKernel`; `executor` builds `Memory` out of it.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dradriver_fabric_cxl.memory.values import MemoryHealth

__all__ = [
    "CxlKernel",
    "CxlRegion",
    "DaxDevice",
    "DaxDriver",
    "EndpointDecoder",
    "KernelState",
    "Memdev",
    "MemoryBlock",
    "RootDecoder",
]


class DaxDriver(enum.Enum):
    """A driver of dax devices, by the kernel's name."""

    DEVDAX = "device_dax"
    KMEM = "kmem"


@dataclass(frozen=True, slots=True)
class EndpointDecoder:
    """A decoder of a memdev: `decoder2.0`.

    Attributes:
        name: kernel's name.
        bytes: memory of the device that is reserved for a region; 0 if none is.
    """

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Memdev:
    """A memory device that is plugged in.

    Attributes:
        name: kernel's name: `mem0`.
        serial: serial number.
        bytes: size of its volatile memory.
        decoders: its decoders by number; empty until the kernel has found the way to the device.
        roots: names of the windows that reach the device.
    """

    name: str
    serial: int
    bytes: int
    decoders: tuple[EndpointDecoder, ...]
    roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RootDecoder:
    """A window of addresses: `decoder0.0`.

    Attributes:
        name: kernel's name.
        volatile: whether it takes regions of volatile memory.
        free: size of the largest range that no region uses, in bytes.
    """

    name: str
    volatile: bool
    free: int


@dataclass(frozen=True, slots=True)
class DaxDevice:
    """A dax device of a region: `dax0.0`.

    Attributes:
        name: kernel's name.
        driver: its driver; None: it has none.
        bytes: size.
        align: alignment of mappings.
        numa_node: NUMA node that the memory has as system RAM; -1 if unknown.
        path: its character device, which exists only with the driver `device_dax`.
        major, minor: number of the character device.
    """

    name: str
    driver: DaxDriver | None
    bytes: int
    align: int
    numa_node: int
    path: Path
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """A block of system RAM: `memory126`.

    Attributes:
        name: kernel's name.
        online: whether the kernel uses it.
        movable: whether it is online for movable pages alone, so that it can be brought offline.
    """

    name: str
    online: bool
    movable: bool


@dataclass(frozen=True, slots=True)
class CxlRegion:
    """A region: `region0`.

    Attributes:
        name: kernel's name.
        bytes: size; 0 until it has one.
        target: name of its endpoint decoder; "" if it has none, because it is unfinished or the device was
            pulled.
        committed: whether the decoders are programmed.
        bound: whether it has its driver.
        dax: its dax devices.
        blocks: blocks of system RAM in its range of addresses.
    """

    name: str
    bytes: int
    target: str
    committed: bool
    bound: bool
    dax: tuple[DaxDevice, ...]
    blocks: tuple[MemoryBlock, ...]


@dataclass(frozen=True, slots=True)
class KernelState:
    """Everything that the kernel shows.

    Attributes:
        memdevs: devices that are plugged in.
        roots: windows of addresses.
        regions: all regions with one target or none.
        drivers: drivers of dax devices that are loaded.
        virtual: whether the node is a virtual machine, in which the kernel refuses regions.
    """

    memdevs: tuple[Memdev, ...]
    roots: tuple[RootDecoder, ...]
    regions: tuple[CxlRegion, ...]
    drivers: frozenset[DaxDriver]
    virtual: bool


class CxlKernel(Protocol):
    """Reads and changes the kernel. Each change can be repeated after the process died in it.

    Every call may raise `CxlMemoryError`.
    """

    def read(self) -> KernelState:
        """Return what the kernel shows now."""

    def health(self, memdev: str) -> MemoryHealth:
        """Return the health of a memdev."""

    def reserve(self, decoder: str, size: int) -> None:
        """Reserve the first bytes of the device's volatile memory for a region; 0: release them."""

    def create_region(self, root: str) -> str:
        """Make an empty region in a window; return its name. If the process dies, the region has no target."""

    def set_size(self, region: str, size: int) -> None:
        """Give an empty region a range of addresses.

        Raises:
            NoAddressSpaceError: the window has no room.
        """

    def set_target(self, region: str, decoder: str) -> None:
        """Connect a region with the memory of a device."""

    def commit(self, region: str) -> None:
        """Program the decoders.

        Raises:
            NodeUnsupportedError: the kernel refuses, because it cannot flush the processor's caches.
        """

    def uncommit(self, region: str) -> None:
        """Reset the decoders. The kernel does so even if the memory is in use."""

    def claim_dax(self, region: str) -> None:
        """Make the driver of character devices take the region's dax device when it appears.

        Without this the kernel brings the memory online as soon as the region gets its driver.
        """

    def disclaim_dax(self, region: str) -> None:
        """Undo `claim_dax`; a no-op if nothing was claimed."""

    def bind_region(self, region: str) -> None:
        """Give a committed region its driver, which makes the dax device."""

    def unbind_region(self, region: str) -> None:
        """Take the driver from a region. The kernel does so even if the memory is in use."""

    def delete_region(self, region: str) -> None:
        """Remove a region."""

    def bind_dax(self, dax: str, driver: DaxDriver) -> None:
        """Give a dax device without a driver this driver. `kmem` can bring the memory online at once."""

    def unbind_dax(self, dax: str) -> None:
        """Take the driver from a dax device, and its name from the drivers.

        A no-op if `kmem` is just bringing the memory online: memory that is online must not lose its driver.
        """

    def online(self, blocks: Sequence[str]) -> None:
        """Bring offline blocks online for movable pages alone. A failure leaves some of them offline."""

    def offline(self, blocks: Sequence[str]) -> None:
        """Bring online blocks offline.

        Raises:
            MemoryInUseError: pages cannot be moved, or not in time. Some of the blocks can be offline.
        """

    def find_user(self, dax: DaxDevice) -> str:
        """Return which program has the character device open or mapped, for people; "" if none is seen."""

    def clear(self, dax: DaxDevice, proceed: Callable[[int], bool]) -> bool:
        """Overwrite the memory with zeros; see `Memory.clear`. Return False if `proceed` stopped it."""
