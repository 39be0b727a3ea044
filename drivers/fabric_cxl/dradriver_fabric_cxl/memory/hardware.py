"""The interface to the memory of a node. Calls block; `NodeMemory` runs them on threads."""

from collections.abc import Callable
from typing import Protocol

from dradriver_fabric_cxl.memory.values import MemoryDevice, MemoryMode, UsableMemory

__all__ = ["Memory"]


class Memory(Protocol):
    """All CXL memory of a node. Every call may raise `CxlMemoryError`, and any thread may call it.

    Regions are in the kernel and outlive the process, but not a reboot. If a process dies at any point, the
    next one makes the same call, which continues from what exists. Two calls for one serial number may not run
    at the same time.
    """

    def open(self) -> None:
        """Start to detect changes. Call it once before all other calls."""

    def close(self) -> None:
        """Shut down. A running `wait_change` returns within its timeout."""

    def find_problem(self) -> str:
        """Return why the node can use no CXL memory, for people; "" if it can."""

    def devices(self) -> tuple[MemoryDevice, ...]:
        """Return the devices that are plugged in, by serial number."""

    def make(self, serial: int, mode: MemoryMode) -> UsableMemory:
        """Make the whole memory of a device usable: create a region, and give its dax device the mode's driver.

        If the memory is usable already, nothing changes. Memory in the mode `devdax` can be changed to
        `system-ram`; the way back is `take_back`.

        Args:
            serial: serial number of the device.
            mode: how the memory is used.

        Returns:
            The usable memory.

        Raises:
            MemoryDeviceNotFoundError: the device is not plugged in.
            NodeUnsupportedError: the node can use no CXL memory.
            NoAddressSpaceError: the node's windows have no room.
            CxlMemoryError: the kernel refuses, or the memory cannot be brought online as movable.
        """

    def clear(self, serial: int, proceed: Callable[[int], bool]) -> None:
        """Overwrite memory in the mode `devdax` with zeros.

        If the process dies, the memory is partly cleared, and the caller clears it again.

        Args:
            serial: serial number of the device.
            proceed: called now and then with the number of bytes cleared so far; False: stop and raise.

        Raises:
            MemoryDeviceNotFoundError: the device is not plugged in.
            MemoryInUseError: a program has the character device open. Nothing is overwritten.
            CxlMemoryError: the memory is not in the mode `devdax`, cannot be written, or `proceed` stopped it.
        """

    def take_back(self, serial: int) -> None:
        """Undo `make`, whether it is complete, partly done or not begun.

        System RAM is brought offline, and that is verified before the region is removed: the kernel would
        remove memory that is in use. `remove_abandoned` removes the region of a device that was pulled.

        Args:
            serial: serial number of the device.

        Raises:
            MemoryInUseError: the memory cannot be brought offline, or a program has the character device open.
                The memory stays as it is.
            CxlMemoryError: the kernel refuses.
        """

    def remove_abandoned(self) -> tuple[str, ...]:
        """Remove regions whose device is no longer plugged in, and regions that were never connected to one.

        Regions of plugged devices stay. The region of a device that was pulled while it was system RAM stays
        until the next reboot. Its memory is brought offline, as far as possible, because nobody may get memory
        that does not exist; `take_back` of the pulled device does that too. If the process dies, the next call
        continues. `make` and `take_back` remove regions as well.

        Returns:
            Names of the removed regions.
        """

    def wait_change(self, timeout: float) -> bool:
        """Return whether devices may have been plugged or pulled since the last call.

        Several changes can be reported as one. The caller also calls `devices` from time to time.

        Args:
            timeout: seconds to wait; 0: return at once.
        """
